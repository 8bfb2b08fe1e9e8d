"""The content of a folder as one hash: every name and every byte of it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from amplifier_foundation.sources.errors import FetchError

__all__ = ["IGNORED", "content_hash", "files_of", "hash_of", "is_covered"]

# What tools leave behind; the bytes that are run come from the files beside it.
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
                # A link to a folder counts as what it says; what is there is not part of this one.
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
    """Tell whether a file with this relative name counts."""
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
