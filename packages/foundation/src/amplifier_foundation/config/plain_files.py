"""Open files that may be untrusted, or that another user could have written."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from amplifier_foundation.errors import FoundationError
from amplifier_sandbox.ownership import Exposure, exposure_in, exposure_of, is_own_place
from amplifier_sandbox.platforms.opening import open_without_waiting

__all__ = ["is_file", "is_folder", "open_plain", "require_own", "require_own_folder"]


def is_file(path: Path) -> bool:
    """Return whether a file exists; False in a folder that may not be entered.

    There `Path.is_file` raises before Python 3.14, so a closed folder would stop a command.
    """
    try:
        return path.is_file()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Return whether a folder exists; False in a folder that may not be entered."""
    try:
        return path.is_dir()
    except OSError:
        return False


def open_plain(path: Path) -> BinaryIO:
    """Open a file to read it; raises OSError for folders, pipes and devices."""
    fd = open_without_waiting(path, os.O_RDONLY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "It is not a plain file", str(path))
    return os.fdopen(fd, "rb")


def require_own(path: Path, error: type[FoundationError], *, file: BinaryIO | None = None) -> None:
    """Raise `error` if another user could have written a file in the user's own folder.

    `file` is the same file, already open: then it is checked instead of the path. Files elsewhere,
    such as those of a project, are not the user's own and pass.
    """
    if is_own_place(path):
        status = None if file is None else os.fstat(file.fileno())
        _refuse(path, exposure_of(path, status), error)


def require_own_folder(folder: Path, error: type[FoundationError]) -> None:
    """Raise `error` if another user could have written anything in a folder of the user's own."""
    if is_own_place(folder):
        _refuse(folder, exposure_in(folder), error)


def _refuse(path: Path, exposure: Exposure | None, error: type[FoundationError]) -> None:
    if exposure is not None:
        raise error(f"`{path}` is not used.", why=exposure.why, fix=exposure.fix)
