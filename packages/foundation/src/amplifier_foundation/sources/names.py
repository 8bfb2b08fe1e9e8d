"""Which names the files of a fetched tree may have, whatever they came packed in."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from amplifier_foundation.sources.content import IGNORED

__all__ = ["collision", "name_fault"]

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
    if any(part not in IGNORED and _plainest(part) in IGNORED for part in parts):
        return "another spelling of a folder that is left out"
    return None


def collision(files: Iterable[str], folders: Iterable[str]) -> str | None:
    """Return which name is there twice on some file system, or as a file and as a folder."""
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
    """Return one spelling for the names that a file system of macOS or Windows has once."""
    return unicodedata.normalize("NFC", name).casefold()


def _plainest(part: str) -> str:
    """Return what a file system that is as lenient as any would take a name for."""
    return unicodedata.normalize("NFKC", part).casefold().rstrip(". ")
