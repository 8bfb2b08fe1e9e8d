"""The writer's lock: one process writes a file, and has a number that no other has.

The lock is an `flock` on a file beside the one that is written, which also says who holds it.
Taking over from a process that still lives puts another file in its place: the old one's lock is
then on a file that nobody else sees, which it notices before it writes.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

_OPENING_SECONDS = 10.0
_RETRY_SECONDS = 0.02


class Holder(NamedTuple):
    """Who has the lock; `pid` is 0 when the process has not said who it is."""

    pid: int
    host: str
    since: str
    fence: int
    session_id: str


class HeldError(Exception):
    """Another process has the lock, or has been about to take it for long."""

    def __init__(self, path: Path, holder: Holder) -> None:
        if holder.pid:
            who = f"process {holder.pid} on {holder.host}"
        else:
            who = "another process"
        super().__init__(f"`{path}` is held by {who}.")
        self.path = path
        self.holder = holder


class LostError(Exception):
    """Another process has taken the lock over."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"`{path}` is no longer this process's.")
        self.path = path


class WriterLock:
    """Held from `acquire` to `release`; `fence` grows by one with each holder."""

    def __init__(self, path: Path, fd: int, fence: int) -> None:
        # `require` runs twice for each record: it must not make a string of a Path each time.
        self._name = os.fspath(path)
        self._fd = fd
        self._file = _identity(os.fstat(fd))
        self.fence = fence

    @classmethod
    def acquire(cls, path: Path, *, takeover: bool = False) -> WriterLock:
        """Lock the file at `path`, or take it over; call this inside `opening`.

        Raises:
            HeldError: another process holds it and `takeover` is False.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        holder = _read_holder(fd)
        if not _try_lock(fd):
            os.close(fd)
            if not takeover:
                raise HeldError(path, holder)
            fd = _put_in_place(path)
        return cls(path, fd, holder.fence)

    def sign(self, fence: int, session_id: str) -> Holder:
        """Write down, durably, who holds the lock, with its number; return what was written."""
        self.fence = fence
        since = datetime.now(UTC).isoformat(timespec="seconds")
        holder = Holder(os.getpid(), os.uname().nodename, since, fence, session_id)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps(holder._asdict()).encode(), 0)
        os.fsync(self._fd)
        return holder

    def require(self) -> None:
        """Raise LostError when another process has taken over.

        Before a write, it keeps the write from happening; after one, it tells whether the write
        came before the takeover, so that the next holder finds it.
        """
        try:
            current = _identity(os.stat(self._name))  # noqa: PTH116 - a Path costs more than the call
        except FileNotFoundError:
            current = None
        if current != self._file:
            raise LostError(Path(self._name))

    def release(self) -> None:
        """Let the next process in."""
        os.close(self._fd)


@contextmanager
def opening(folder: Path) -> Generator[None]:
    """Let one process at a time open files in `folder`; the others wait a little.

    Raises:
        HeldError: another process has been opening one for long.
    """
    fd = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + _OPENING_SECONDS
        while not _try_lock(fd):
            if time.monotonic() > deadline:
                raise HeldError(folder, Holder(0, "", "", 0, ""))
            time.sleep(_RETRY_SECONDS)
        yield
    finally:
        os.close(fd)


def read_holder(path: Path) -> Holder | None:
    """Return who holds the lock at `path`; None when nobody does."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if _try_lock(fd, fcntl.LOCK_SH):
            return None
        return _read_holder(fd)
    finally:
        os.close(fd)


def _put_in_place(path: Path) -> int:
    """Put a new locked file in the place of one that another process has locked."""
    replacement = path.with_name(f"{path.name}.{os.getpid()}")
    fd = os.open(replacement, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    _try_lock(fd)
    replacement.replace(path)
    return fd


def _try_lock(fd: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def _read_holder(fd: int) -> Holder:
    """Return what the lock file says; a holder without a pid when it was never signed."""
    try:
        said: Any = json.loads(os.pread(fd, 4_096, 0))
    except ValueError:
        said = {}
    if isinstance(said, dict):
        said = cast("dict[str, Any]", said)
    else:
        said = {}
    return Holder(
        pid=_number(said.get("pid")),
        host=str(said.get("host", "")),
        since=str(said.get("since", "")),
        fence=_number(said.get("fence")),
        session_id=str(said.get("session_id", "")),
    )


def _number(value: Any) -> int:
    if isinstance(value, int):
        return value
    return 0
