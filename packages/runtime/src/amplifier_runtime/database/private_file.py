"""The file of an SQLite database, for its owner alone from its first byte on."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import stat
import threading
from pathlib import Path
from urllib.parse import unquote

import sqlalchemy as sa

from amplifier_kit.durable_files import make_private_folder
from amplifier_runtime.errors import ExposedDatabaseError
from amplifier_sandbox.ownership import exposure_of, is_own_place

__all__ = ["make_private"]

logger = logging.getLogger(__name__)

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# What SQLite keeps beside its file. It gives them the mode that the file has.
_BESIDE = ("-wal", "-shm", "-journal")
_making = threading.Lock()


def make_private(url: str) -> None:
    """See to it that nobody else can read or write the file of an SQLite URL, new or not.

    A file that is there is never opened: closing it would release the locks that SQLite has on it
    in this process.

    Raises:
        ExposedDatabaseError: another user could have written it, or its mode cannot be changed.
    """
    path = _file_of(url)
    if path is None:
        return
    if is_own_place(path):
        # If it cannot be made, SQLite says why.
        with contextlib.suppress(OSError):
            make_private_folder(path.parent)
        _narrow(path.parent)
    # Two threads: the one that makes the file closes it before the other opens it.
    with _making:
        _make(path)
    exposure = exposure_of(path)
    if exposure is not None:
        raise ExposedDatabaseError(exposure.why, exposure.fix)
    for each in (path, *(path.with_name(path.name + end) for end in _BESIDE)):
        _narrow(each)


def _file_of(url: str) -> Path | None:
    """Return the file of a URL; None for a database in memory."""
    name = sa.make_url(url).database or ""
    if name.startswith("file:"):
        name = unquote(name.removeprefix("file:").partition("?")[0])
        name = name.removeprefix("//") if name.startswith("///") else name
    if name in ("", ":memory:"):
        return None
    return Path(name).absolute()


def _make(path: Path) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        # It is there, or SQLite says why it cannot be.
        return
    os.close(file)


def _narrow(path: Path) -> None:
    """Take away what others may do with a file or folder that is there."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if not mode & _OTHERS:
            return
        path.chmod(mode & ~_OTHERS)
    except FileNotFoundError:
        return
    except PermissionError:
        raise ExposedDatabaseError(
            f"`{path}` can be read by other users, and its mode cannot be changed by this one.",
            f"sudo chmod go-rwx {shlex.quote(str(path))}",
        ) from None
    logger.warning("made private path=%s mode before=%04o", path, mode)
