"""The lease: the right of one process to write a session."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from amplifier_foundation.store.errors import LeaseLostError, SessionHeldError, SessionNotFoundError
from amplifier_kit.writer_lock import (
    HeldError,
    Holder,
    LostError,
    WriterLock,
    opening,
    read_holder,
)

_LOCK = "log.lock"


class Lease:
    """Held until `release`, unless another process takes the session over."""

    def __init__(self, lock: WriterLock, session_id: str) -> None:
        self._lock = lock
        self._session_id = session_id
        self._released = False

    @property
    def fence(self) -> int:
        """The number of this writer, higher than that of every one before it."""
        return self._lock.fence

    def sign(self, at_least: int) -> Holder:
        """Write down who writes now, with a number above every one seen so far."""
        return self._lock.sign(max(self._lock.fence, at_least) + 1, self._session_id)

    def require(self) -> None:
        """Raise LeaseLostError when another process has taken the session over."""
        try:
            self._lock.require()
        except LostError as error:
            raise LeaseLostError(self._session_id) from error

    def release(self) -> None:
        """Let the next process in; a second time, do nothing."""
        if not self._released:
            self._released = True
            self._lock.release()


@contextmanager
def taking(folder: Path, session_id: str, *, takeover: bool = False) -> Generator[Lease]:
    """Take the lease on a session; nobody else opens it before the block ends.

    The lease outlives the block unless the block fails.

    Raises:
        SessionHeldError: another process has it and `takeover` is False.
        SessionNotFoundError: the session was deleted meanwhile.
    """
    try:
        with opening(folder):
            lease = Lease(WriterLock.acquire(folder / _LOCK, takeover=takeover), session_id)
            try:
                yield lease
            except BaseException:
                lease.release()
                raise
    except HeldError as error:
        raise SessionHeldError(session_id, error.holder) from error
    except FileNotFoundError as error:
        if folder.exists():
            raise
        raise SessionNotFoundError(session_id) from error


def holder_of(folder: Path) -> Holder | None:
    """Return who writes a session now; None when nobody does."""
    try:
        # Looking must not get in the way of a process that is about to take the lease.
        with opening(folder):
            return read_holder(folder / _LOCK)
    except HeldError as error:
        return error.holder
