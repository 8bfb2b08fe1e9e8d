"""Opening a file that may have been put in the place of another one, and the flags for it."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

__all__ = [
    "CLOSE_ON_EXEC",
    "NO_FOLLOW",
    "NO_TERMINAL",
    "NO_WAIT",
    "ONLY_FOLDER",
    "open_folder",
    "open_itself",
    "open_without_waiting",
]

if sys.platform == "win32":
    # Without an effect: whoever relies on them has to refuse Windows first.
    CLOSE_ON_EXEC = NO_FOLLOW = NO_TERMINAL = NO_WAIT = ONLY_FOLDER = 0
else:
    CLOSE_ON_EXEC = os.O_CLOEXEC
    NO_FOLLOW = os.O_NOFOLLOW
    NO_TERMINAL = os.O_NOCTTY
    NO_WAIT = os.O_NONBLOCK
    ONLY_FOLDER = os.O_DIRECTORY


def open_folder(path: Path, flags: int) -> int:
    """Open a folder, in which names are opened then.

    Raises:
        OSError: there is no such folder, or this is Windows, which opens no folders.
    """
    if sys.platform == "win32":
        why = "the file tools need folders that can be opened, which Windows lacks; run in WSL"
        raise OSError(errno.ENOSYS, why, str(path))
    return os.open(path, flags | ONLY_FOLDER)


def open_itself(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file, but not through a link in its place, and without waiting for a pipe's writer.

    Raises:
        OSError: it is a link, or cannot be opened.
    """
    if sys.platform == "win32":
        # Between this and the opening it can be replaced: Windows has no flag for it.
        if path.is_symlink():
            raise OSError(errno.ELOOP, "It is a link", str(path))
        return open_without_waiting(path, flags, mode)
    return open_without_waiting(path, flags | os.O_NOFOLLOW, mode)


def open_without_waiting(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file; if a pipe without a writer is in its place, do not wait for one."""
    if sys.platform == "win32":
        # Without it, Windows changes the ends of lines.
        return os.open(path, flags | os.O_BINARY, mode)
    return os.open(path, flags | os.O_NONBLOCK, mode)
