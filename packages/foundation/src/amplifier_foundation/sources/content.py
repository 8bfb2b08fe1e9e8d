"""Fetched trees: which names their files may have, and one hash over all content."""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from amplifier_foundation.sources.errors import FetchError

# A part longer than this cannot be written on Linux or macOS.
_PART_BYTES = 255
_NAME_BYTES = 1_000
_DEPTH = 50


def name_fault(name: str) -> str | None:
    """Return what is wrong with the name of a file or, with a slash at its end, of a folder."""
    if name.startswith("/") or "\\" in name or ":" in name or not name.isprintable():
        return "an absolute name, or one that no file should have"
    parts = name.removesuffix("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "a name that leads elsewhere"
    if len(parts) > _DEPTH or len(name.encode()) > _NAME_BYTES:
        return f"a name longer than {_NAME_BYTES:,} bytes or {_DEPTH} folders"
    if any(len(part.encode()) > _PART_BYTES for part in parts):
        return f"a name with a part longer than {_PART_BYTES} bytes"
    # A lenient file system takes `.GIT` or `.git.` for `.git`, which is not part of the hash.
    if any(part not in IGNORED and _plainest(part) in IGNORED for part in parts):
        return "another spelling of a folder that is left out"
    return None


def collision(files: Iterable[str], folders: Iterable[str]) -> str | None:
    """Return which name occurs twice on some file system, or is both a file and a folder."""
    known_files: set[str] = set()
    all_folders = set(folders)
    for name in files:
        folded = _folded(name)
        if folded in known_files:
            return f"one name twice: {name!r}"
        known_files.add(folded)
        all_folders.update(_parents(name))
    for name in tuple(all_folders):
        all_folders.update(_parents(name))
    known_folders: dict[str, str] = {}
    for name in all_folders:
        if known_folders.setdefault(_folded(name), name) != name:
            return f"one name twice: {name!r}"
    both = known_files & known_folders.keys()
    if both:
        return f"a file that is a folder too: {min(both)!r}"
    return None


def _parents(name: str) -> Iterator[str]:
    end = name.find("/")
    while end >= 0:
        yield name[:end]
        end = name.find("/", end + 1)


def _folded(name: str) -> str:
    """Return one spelling for all names that are the same file on macOS or Windows."""
    return unicodedata.normalize("NFC", name).casefold()


def _plainest(part: str) -> str:
    """Return a name as the most lenient file system would read it."""
    return unicodedata.normalize("NFKC", part).casefold().rstrip(". ")


# What tools leave behind. It is not hashed, and removed from fetched trees before they are used.
IGNORED = {"__pycache__", ".git"}
_CHUNK = 1 << 20


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each file's name relative to `folder`, and the file, in the order of the names.

    A single file is a folder of one.
    """
    if not folder.is_dir():
        yield folder.name, folder
        return
    found: list[tuple[str, Path]] = []
    waiting = [("", folder)]
    while waiting:
        above, parent = waiting.pop()
        with os.scandir(parent) as entries:
            for entry in entries:
                name = f"{above}{entry.name}"
                if entry.name in IGNORED:
                    continue
                # A link to a folder is hashed as a link: what it leads to is not part of the tree.
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((f"{name}/", parent / entry.name))
                else:
                    found.append((name, parent / entry.name))
    yield from sorted(found)


def content_hash(folder: Path) -> str:
    """Return the sha256 over the sorted relative names and the bytes of all files.

    The same content gives the same hash on every machine: times, owners and modes do not count.
    """
    total = hashlib.sha256()
    for name, path in files_of(folder):
        kind, digest = _digest(path)
        total.update(_line(kind, digest, name))
    return total.hexdigest()


def hash_of(digests: Mapping[str, str]) -> str:
    """Return the content hash of plain files that are not on disk, from the sha256 of each."""
    total = hashlib.sha256()
    for name, digest in sorted(digests.items()):
        total.update(_line("file", digest, name))
    return total.hexdigest()


def is_covered(name: str) -> bool:
    """Return whether the content hash covers a file with this relative name."""
    return not IGNORED.intersection(name.split("/"))


def _line(kind: str, digest: str, name: str) -> bytes:
    return f"{kind} {digest} {name}\0".encode(errors="surrogateescape")


def _digest(path: Path) -> tuple[str, str]:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return "link", hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
    if not stat.S_ISREG(mode):
        # Reading a pipe or a device would wait or never end.
        raise FetchError(f"{path} is no regular file.", why="Only files and folders can be pinned.")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return "file", digest.hexdigest()
