"""Files that are the owner's alone and hold what was written, whatever happens.

Everything here blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

__all__ = [
    "append_durably",
    "append_new_lines",
    "append_whole",
    "make_private_folder",
    "read_from",
    "remove_unfinished",
    "sync_folder",
    "write_whole",
]

_UNFINISHED = ".unfinished-"
_numbers = count()


def make_private_folder(folder: Path) -> None:
    """Make the folder and those above it that are missing, for the owner alone."""
    if not folder.is_dir():
        make_private_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            sync_folder(folder.parent)


def write_whole(
    path: Path, data: bytes, allowed: Callable[[], None] | None = None
) -> os.stat_result:
    """Put `data` into the file's place, all of it or nothing; return what the new file is.

    `allowed` is asked at the last moment and raises to leave the old file in its place.
    """
    unfinished = path.with_name(f"{_UNFINISHED}{path.name}.{os.getpid()}.{next(_numbers)}")
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
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


def append_whole(fd: int, data: bytes) -> None:
    """Append all of `data` to a file opened for appending, or nothing of it."""
    done = 0
    try:
        while done < len(data):
            done += os.write(fd, data[done:])
    except OSError:
        # The disk is full. Half of something would spoil what comes next.
        os.ftruncate(fd, os.fstat(fd).st_size - done)
        raise


def append_durably(path: Path, data: bytes) -> None:
    """Append `data` to a private file and put it onto the disk."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(fd, "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def append_new_lines(path: Path, lines: list[bytes]) -> None:
    """Append the lines that a file does not have yet, onto the disk; without any, make no file."""
    if lines and path.exists():
        had = set(path.read_bytes().split(b"\n"))
    else:
        had = set[bytes]()
    new = [line for line in lines if line not in had]
    if new:
        append_durably(path, b"".join(line + b"\n" for line in new))


def read_from(fd: int, start: int) -> bytes:
    """Return what a file holds from `start` on."""
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(start)
        return file.read()


def sync_folder(folder: Path) -> None:
    """Put the names in a folder onto the disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_unfinished(folder: Path) -> None:
    """Remove what a process that was killed left of a file; only for who alone writes there."""
    for left in folder.glob(f"{_UNFINISHED}*"):
        left.unlink(missing_ok=True)
