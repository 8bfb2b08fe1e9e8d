"""Files that are written whole or not at all, for their owner alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

_UNFINISHED = ".unfinished-"
_numbers = count()


def make_folder(folder: Path) -> None:
    """Make the folder and those above it that are missing, for the owner alone."""
    if not folder.is_dir():
        make_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            sync_folder(folder.parent)


def write_whole(
    path: Path, data: bytes, allowed: Callable[[], None] | None = None
) -> os.stat_result:
    """Put `data` into the file's place, durably; return what the new file is.

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
