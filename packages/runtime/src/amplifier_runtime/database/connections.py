"""The connections of one process to PostgreSQL: as many as it needs, or fewer and slower."""

from __future__ import annotations

import logging
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util import queue

from amplifier_runtime.database.clock import monotonic

__all__ = ["PatientPool", "is_full", "make_engine"]

logger = logging.getLogger(__name__)

# The server, a role or a database has as many connections as it may have.
_TOO_MANY = "53300"
_SAID = ("too many clients", "too many connections", "remaining connection slots", "no more conn")
# How long after the last time that all connections were in use one of them is closed.
_CALM_SECONDS = 5.0
# How long to wait for a connection of this process before the server is asked again for one more.
_REFUSED_SECONDS = 0.5
# How long after a refusal no connection is kept that is not needed: others wait for it.
_SCARCE_SECONDS = 10.0
_WARN_SECONDS = 30.0


def _connect_arguments(schema: str, idle_seconds: int) -> dict[str, Any]:
    """Return what libpq is given: a peer that is gone is noticed after about 10 s."""
    options = f"-c search_path={schema} -c idle_in_transaction_session_timeout={idle_seconds}s"
    return {
        "options": options,
        "connect_timeout": 5,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }


def is_full(error: BaseException) -> bool:
    """Whether a connection was refused because there are as many as there may be."""
    if getattr(error, "sqlstate", None) == _TOO_MANY:
        return True
    # A refusal while connecting may come without its state.
    return isinstance(error, Exception) and any(text in str(error) for text in _SAID)


class PatientPool(QueuePool):
    """A pool that waits for one of its own connections when the server refuses another.

    It closes what it does not need: after some calm, and soon after a refusal, because other
    processes may be waiting for it.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._needed_at = self._refused_at = self._warned_at = float("-inf")

    def _do_get(self) -> ConnectionPoolEntry:
        until = monotonic() + self._timeout
        while True:
            if self.checkedin() == 0:
                self._needed_at = monotonic()
            try:
                return super()._do_get()
            except Exception as error:
                if not is_full(error):
                    raise
                self._note_refusal(error)
                if monotonic() > until:
                    raise
            entry = self._wait_for_own()
            if entry is not None:
                return entry

    def _wait_for_own(self) -> ConnectionPoolEntry | None:
        if self.checkedout() + self.checkedin() <= 0:
            time.sleep(_REFUSED_SECONDS)
            return None
        try:
            return self._pool.get(True, _REFUSED_SECONDS)
        except queue.Empty:
            return None

    def _note_refusal(self, error: Exception) -> None:
        self._refused_at = monotonic()
        if self._refused_at - self._warned_at < _WARN_SECONDS:
            return
        self._warned_at = self._refused_at
        logger.warning(
            "the database has no free connection, this process continues with fewer "
            "connections=%d wanted=%d cause=%s. Raise max_connections or lower --connections.",
            self.checkedout() + self.checkedin(),
            self.size(),
            str(error).strip().splitlines()[-1],
        )

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        if not self._is_surplus():
            super()._do_return_conn(record)
            return
        try:
            record.close()
        finally:
            self._dec_overflow()

    def _is_surplus(self) -> bool:
        """Whether a connection that comes back is not needed: another one is idle."""
        now = monotonic()
        is_calm = now - self._needed_at > _CALM_SECONDS
        is_scarce = now - self._refused_at < _SCARCE_SECONDS
        return self.checkedin() > 0 and (is_calm or is_scarce)


def make_engine(
    url: str, connections: int, patience_seconds: float, schema: str, idle_seconds: int
) -> sa.Engine:
    """Return an engine with at most so many connections, made as they are needed."""
    return sa.create_engine(
        sa.make_url(url).set(drivername="postgresql+psycopg"),
        poolclass=PatientPool,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=patience_seconds,
        hide_parameters=True,
        connect_args=_connect_arguments(schema, idle_seconds),
    )
