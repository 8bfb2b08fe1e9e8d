"""Locks between processes, on open files and on folders.

Closing the file releases its lock, and so does the end of the process. On Windows there are no
shared locks: who asks for one gets an exclusive one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
    import time
else:
    import fcntl

__all__ = ["lock", "locked", "locked_folder", "open_to_lock", "try_lock"]

_RETRY_SECONDS = 0.02
# Windows locks bytes and keeps others from reading them, so a byte beyond all content is locked.
_LOCKED_BYTE = 1 << 30


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file; False if another process has locked it."""
    if sys.platform == "win32":
        return _try_lock_byte(fd)
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock(fd: int, *, shared: bool = False) -> None:
    """Lock an open file; wait for the process that has locked it."""
    if sys.platform == "win32":
        # Polling, because the call of Windows that waits gives up after ten seconds.
        while not _try_lock_byte(fd):
            time.sleep(_RETRY_SECONDS)
    else:
        fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def open_to_lock(folder: Path) -> int:
    """Return a descriptor that locks a folder; the caller closes it."""
    if sys.platform == "win32":
        # Windows opens no folders, so a file in it is locked instead.
        return os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    return os.open(folder, os.O_RDONLY)


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Generator[None]:
    """Hold the lock of the file at `path`, which is created if it is missing."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock(fd, shared=shared)
        yield
    finally:
        os.close(fd)


@contextmanager
def locked_folder(folder: Path) -> Generator[None]:
    """Hold the lock of an existing folder."""
    fd = open_to_lock(folder)
    try:
        lock(fd)
        yield
    finally:
        os.close(fd)


def _try_lock_byte(fd: int) -> bool:
    assert sys.platform == "win32"
    before = os.lseek(fd, 0, os.SEEK_CUR)
    os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    except PermissionError:
        return False
    finally:
        os.lseek(fd, before, os.SEEK_SET)
    return True
