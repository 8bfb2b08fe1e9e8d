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
        """The number of this writer, higher than that of every writer before it."""
        return self._lock.fence

    def sign(self, at_least: int) -> Holder:
        """Record this process as the writer, with a higher fence than all seen so far."""
        # The log's highest fence counts as well, in case the lock file was lost.
        return self._lock.sign(max(self._lock.fence, at_least) + 1, self._session_id)

    def require(self) -> None:
        """Raise LeaseLostError if another process has taken the session over."""
        try:
            self._lock.require()
        except LostError as error:
            raise LeaseLostError(self._session_id) from error

    def release(self) -> None:
        """Release the lease; a second call does nothing."""
        if not self._released:
            self._released = True
            self._lock.release()


@contextmanager
def taking(folder: Path, session_id: str, *, takeover: bool = False) -> Generator[Lease]:
    """Take the lease on a session; no other process can open it before the block ends.

    The lease outlives the block unless the block raises.

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
    """Return the process that writes a session now, or None."""
    try:
        # A mere look must not make a process fail that is about to take the lease.
        with opening(folder):
            return read_holder(folder / _LOCK)
    except HeldError as error:
        return error.holder
