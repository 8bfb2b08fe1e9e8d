"""The writer's lock: one process writes a conversation, and has a number that no other has.

The lock is an `flock` on a file beside the conversation, which also says who holds it. Taking over
from a process that still lives puts another file in its place: the old one's lock is then on a file
that nobody else sees, which it notices before it writes.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from amplifier_module_context_persistent.errors import ContextFencedError, ContextInUseError

_OPENING_SECONDS = 10.0
_RETRY_SECONDS = 0.02


class WriterLock:
    """Held from `acquire` to `release`; `fence` grows by one with each holder."""

    def __init__(self, path: Path, fd: int, fence: int) -> None:
        self._path, self._fd = path, fd
        self._file = _identity(os.fstat(fd))
        self.fence = fence

    @classmethod
    def acquire(cls, path: Path, *, takeover: bool) -> WriterLock:
        """Lock the file at `path`, or take it over; call this inside `opening`.

        Raises:
            ContextInUseError: another process holds it and `takeover` is False.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        holder = _read_holder(fd)
        if not _try_lock(fd):
            os.close(fd)
            if not takeover:
                raise ContextInUseError(_in_use(path, holder))
            replacement = path.with_name(f"{path.name}.{os.getpid()}")
            fd = os.open(replacement, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            _try_lock(fd)
            replacement.replace(path)
        fence = holder.get("fence")
        return cls(path, fd, fence if isinstance(fence, int) else 0)

    def sign(self, fence: int, session_id: str) -> dict[str, Any]:
        """Write down, durably, who holds the lock, with its number; return what was written."""
        self.fence = fence
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "fence": fence,
            "session_id": session_id,
        }
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps(holder).encode(), 0)
        os.fsync(self._fd)
        return holder

    def require(self) -> None:
        """Raise ContextFencedError when another process has taken over."""
        try:
            current = _identity(self._path.stat())
        except FileNotFoundError:
            current = None
        if current != self._file:
            raise ContextFencedError(
                f"Nothing was written: `{self._path.name}` is no longer this process's. "
                "Another process has taken the conversation over; open the session again to go on."
            )

    def release(self) -> None:
        """Let the next process in."""
        os.close(self._fd)


@contextmanager
def opening(folder: Path) -> Generator[None]:
    """Let one process at a time open conversations in `folder`; the others wait a little."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + _OPENING_SECONDS
        while not _try_lock(fd):
            if time.monotonic() > deadline:
                raise ContextInUseError(f"Another process has been opening `{folder}` for long.")
            time.sleep(_RETRY_SECONDS)
        yield
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def _read_holder(fd: int) -> dict[str, Any]:
    """Return what the lock file says; nothing when it was never signed."""
    try:
        holder: Any = json.loads(os.pread(fd, 4_096, 0))
    except ValueError:
        return {}
    return cast("dict[str, Any]", holder) if isinstance(holder, dict) else {}


def _in_use(path: Path, holder: dict[str, Any]) -> str:
    who = "process {pid} on {host}, since {started_at}, session {session_id}"
    known = who.format_map(holder) if holder else "a process that has not said which"
    return (
        f"The conversation `{path.with_suffix('')}` is open in {known}. End that process, or open "
        "it with `takeover: true`; the other one can then no longer write."
    )
