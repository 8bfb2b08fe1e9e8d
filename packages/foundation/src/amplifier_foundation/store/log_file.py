"""The log's file: lines that are appended whole, and read whatever has happened to them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from amplifier_foundation.store.errors import StoreError, StoreFullError

LOG = "log.jsonl"
TORN = "log.torn"
GIANT = 64 * 1024 * 1024  # no line is written that is longer, and none is read
NOT_SAVED = "The last record was not saved"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PIECE = 1024 * 1024


def open_log(path: Path) -> int:
    """Open a log for appending, for the owner alone."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)


def append_whole(fd: int, line: bytes, still_ours: Callable[[], None]) -> None:
    """Append all of a line, or nothing of it.

    Raises:
        StoreFullError: there is no room for it.
        StoreError: the disk does not take it.
    """
    done = 0
    try:
        done = os.write(fd, line)
        while done < len(line):
            done += os.write(fd, line[done:])
    except OSError as error:
        if done:
            # Half a line would spoil the next; but only the writer may cut the file.
            still_ours()
            os.ftruncate(fd, os.fstat(fd).st_size - done)
        raise store_error(NOT_SAVED, error) from error


def store_error(what: str, error: OSError) -> StoreError:
    """Return the error that says what the disk refused and what to do about it."""
    kind = StoreFullError if error.errno in _FULL else StoreError
    if kind is StoreFullError:
        fix = "Make room on the disk"
    else:
        fix = "Check the disk and its rights"
    return kind(f"{what}.", why=f"{error.strerror or error}.", fix=f"{fix}, then: amplifier doctor")


def read_lines(file: BinaryIO) -> Iterator[bytes | int]:
    """Yield the whole lines from where `file` stands, without their end.

    Of a line that is too long only its length is yielded. Behind the last whole line it stops and
    leaves `file` there, so that a later call goes on from it.
    """
    while True:
        start = file.tell()
        line = file.readline(GIANT)
        if line.endswith(b"\n"):
            yield line[:-1]
        elif len(line) == GIANT:
            length = _skip_line(file, len(line))
            if length is None:
                file.seek(start)
                return
            yield length
        else:
            file.seek(start)
            return


def set_torn_aside(file: BinaryIO, fd: int) -> int:
    """Move what follows the last whole line, where `file` stands, out of the log; return its size.

    What comes behind half a line would be lost with it.
    """
    whole = file.tell()
    moved = file.seek(0, os.SEEK_END) - whole
    if moved:
        file.seek(whole)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(os.open(Path(file.name).with_name(TORN), flags, 0o600), "ab") as aside:
            while piece := file.read(_PIECE):
                aside.write(piece)
            aside.write(b"\n")
            aside.flush()
            os.fsync(aside.fileno())
        os.ftruncate(fd, whole)
    return moved


def _skip_line(file: BinaryIO, length: int) -> int | None:
    """Read to the end of a long line and return its length; None when it has no end."""
    while piece := file.readline(_PIECE):
        length += len(piece)
        if piece.endswith(b"\n"):
            return length
    return None
