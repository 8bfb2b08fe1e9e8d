"""Files that are the owner's alone and hold what was written, whatever happens."""

from __future__ import annotations

import os
from pathlib import Path


def make_private_folder(folder: Path) -> None:
    """Make the folder and those above it that are missing, for the owner alone."""
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


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


def read_from(fd: int, start: int) -> bytes:
    """Return what a file holds from `start` on."""
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(start)
        return file.read()


def append_durably(path: Path, data: bytes) -> None:
    """Append `data` to a private file and put it onto the disk; blocks."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(fd, "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, data: bytes) -> None:
    """Write a private file whole or not at all, and put it onto the disk; blocks."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    append_durably(unfinished, data)
    unfinished.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder onto the disk; blocks."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def append_new_lines(path: Path, lines: list[bytes]) -> None:
    """Append the lines that a file does not have yet, onto the disk; without any, make no file."""
    had = set(path.read_bytes().split(b"\n")) if lines and path.exists() else set[bytes]()
    new = [line for line in lines if line not in had]
    if new:
        append_durably(path, b"".join(line + b"\n" for line in new))
