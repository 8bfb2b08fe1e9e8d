"""The writer's lock: one process at a time writes a file, with a fence number of its own.

The lock is one on a file beside the one that is written; the lock file also names its
holder. A takeover from a live process replaces the lock file: the old holder's lock is then on a
file without a name, which it notices before it writes.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

from amplifier_sandbox.platforms.locks import open_to_lock, try_lock

_OPENING_SECONDS = 10.0
_RETRY_SECONDS = 0.02


class Holder(NamedTuple):
    """Who holds the lock; `pid` is 0 if the holder has not signed the lock file."""

    pid: int
    host: str
    since: str
    fence: int
    session_id: str


class HeldError(Exception):
    """Another process holds the lock, or has been acquiring one for too long."""

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
        # The open descriptor keeps the inode from being reused: equal numbers are the same file.
        self._file = _identity(os.fstat(fd))
        self.fence = fence

    @classmethod
    def acquire(cls, path: Path, *, takeover: bool = False) -> WriterLock:
        """Lock the file at `path`, or take the lock over; call this inside `opening`.

        Raises:
            HeldError: another process holds it and `takeover` is False, or this is Windows.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        # Read before a takeover replaces the file: fence numbers continue from its number.
        holder = _read_holder(fd)
        if not try_lock(fd):
            os.close(fd)
            # Windows does not replace a file that another process has open.
            if not takeover or sys.platform == "win32":
                raise HeldError(path, holder)
            fd = _put_in_place(path)
        return cls(path, fd, holder.fence)

    def sign(self, fence: int, session_id: str) -> Holder:
        """Write this process and its fence to the lock file, durably; return the holder."""
        self.fence = fence
        since = datetime.now(UTC).isoformat(timespec="seconds")
        holder = Holder(os.getpid(), platform.node(), since, fence, session_id)
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        os.write(self._fd, json.dumps(holder._asdict()).encode())
        os.fsync(self._fd)
        return holder

    def require(self) -> None:
        """Raise LostError if another process has taken over.

        Before a write, this prevents it. After a write, it confirms that the write preceded any
        takeover, so that the next holder reads it.
        """
        try:
            current = _identity(os.stat(self._name))  # noqa: PTH116 - a Path costs more than the call
        except FileNotFoundError:
            current = None
        if current != self._file:
            raise LostError(Path(self._name))

    def release(self) -> None:
        """Release the lock: closing the file drops it."""
        os.close(self._fd)


@contextmanager
def opening(folder: Path) -> Generator[None]:
    """Let one process at a time acquire locks in `folder`; others wait up to ten seconds.

    Raises:
        HeldError: another process took longer than that.
    """
    fd = open_to_lock(folder)
    try:
        # Polling, because locks have no timeout of their own.
        deadline = time.monotonic() + _OPENING_SECONDS
        while not try_lock(fd):
            if time.monotonic() > deadline:
                raise HeldError(folder, Holder(0, "", "", 0, ""))
            time.sleep(_RETRY_SECONDS)
        yield
    finally:
        os.close(fd)


def read_holder(path: Path) -> Holder | None:
    """Return who holds the lock at `path`; None if it is free. Call this inside `opening`."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        # Even this shared lock would make a concurrent `acquire` fail, hence `opening`.
        if try_lock(fd, shared=True):
            return None
        return _read_holder(fd)
    finally:
        os.close(fd)


def _put_in_place(path: Path) -> int:
    """Replace a lock file that another process has locked by a new one, locked by this process."""
    replacement = path.with_name(f"{path.name}.{os.getpid()}")
    fd = os.open(replacement, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    # Locked before it gets its name, so that no other process can lock it first.
    try_lock(fd)
    replacement.replace(path)
    return fd


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def _read_holder(fd: int) -> Holder:
    """Parse the lock file; the pid is 0 if it was never signed."""
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        said: Any = json.loads(os.read(fd, 4_096))
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
