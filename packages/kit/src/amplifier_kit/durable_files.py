"""Durable writes to private files: atomic replacement, all-or-nothing appends, synced folders.

Every function here does blocking I/O.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

__all__ = [
    "append_durably",
    "append_new_lines",
    "append_whole",
    "make_private_folder",
    "open_to_append",
    "read_from",
    "remove_unfinished",
    "sync_content",
    "sync_folder",
    "write_whole",
]

_UNFINISHED = ".unfinished-"
_numbers = count()


def make_private_folder(folder: Path) -> None:
    """Create the folder and its missing parents, accessible to the owner only."""
    if not folder.is_dir():
        # Not `mkdir(parents=True)`: it ignores the mode for the folders above.
        make_private_folder(folder.parent)
        # Another process may create it at the same moment.
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            sync_folder(folder.parent)


def write_whole(
    path: Path, data: bytes, allowed: Callable[[], None] | None = None
) -> os.stat_result:
    """Replace the file by `data` atomically; return the stat of the new file.

    `allowed` is called right before the replacement and raises to keep the old file.
    """
    # In the same folder, because a rename is atomic only within one file system.
    unfinished = path.with_name(f"{_UNFINISHED}{path.name}.{os.getpid()}.{next(_numbers)}")
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            # Before the rename: after a crash the name must not lead to missing data.
            os.fsync(fd)
            written = os.fstat(fd)
        if allowed is not None:
            allowed()
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return written


def open_to_append(path: Path) -> int:
    """Open a file of records, readable for its owner only; it is created if it is missing."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    if sys.platform == "win32":
        # Without it, Windows changes the ends of lines.
        flags |= os.O_BINARY
    return os.open(path, flags, 0o600)


def append_whole(fd: int, data: bytes) -> None:
    """Append all of `data` to a file opened for appending, or none of it."""
    done = 0
    try:
        while done < len(data):
            done += os.write(fd, data[done:])
    except OSError:
        # The disk is full. Half a record would corrupt the one that is appended next.
        os.ftruncate(fd, os.fstat(fd).st_size - done)
        raise


def append_durably(path: Path, data: bytes) -> None:
    """Append `data` to a private file and sync it to disk."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(fd, "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def append_new_lines(path: Path, lines: list[bytes]) -> None:
    """Append the lines that the file lacks and sync it; with nothing to add, create no file."""
    if lines and path.exists():
        had = set(path.read_bytes().split(b"\n"))
    else:
        had = set[bytes]()
    new = [line for line in lines if line not in had]
    if new:
        append_durably(path, b"".join(line + b"\n" for line in new))


def read_from(fd: int, start: int) -> bytes:
    """Return the content of a file from `start` on."""
    # A duplicate, because closing the file object closes its descriptor.
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(start)
        return file.read()


def sync_content(fd: int) -> None:
    """Sync what is in a file to disk, and of its status only what reading it needs."""
    if sys.platform == "linux":
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk; syncing a file does not cover its name."""
    if sys.platform == "win32":
        # Windows opens no folders; NTFS has a journal of its names.
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_unfinished(folder: Path) -> None:
    """Remove unfinished files of killed processes; only safe for the sole writer of the folder."""
    for left in folder.glob(f"{_UNFINISHED}*"):
        left.unlink(missing_ok=True)
