"""The connection pool of one process for PostgreSQL; with fewer connections it is slower."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util import queue

from amplifier_runtime.database.clock import monotonic

__all__ = ["PatientPool", "is_full", "make_engine", "wait_for_server"]

logger = logging.getLogger(__name__)
T = TypeVar("T")

# SQLSTATE too_many_connections: a limit of the server, the role or the database.
_TOO_MANY = "53300"
_FULL_SAID = (
    "too many clients", "too many connections", "remaining connection slots", "no more conn",
)  # fmt: skip
_AWAY_SAID = (
    "Connection refused", "is starting up", "is shutting down", "timeout expired",
    "server closed the connection",
)  # fmt: skip
# After so long without all connections in use, one that is returned is closed. Not only after a
# refusal: the process that has spare connections is not the one that is refused.
_CALM_SECONDS = 5.0
# How long to wait for an own connection before the server is asked for another one again.
_REFUSED_SECONDS = 0.5
# How long to wait before a server that is away is tried again.
_AWAY_SECONDS = 0.5
# For so long after a refusal, idle connections are closed: other processes wait for them.
_SCARCE_SECONDS = 10.0
_WARN_SECONDS = 30.0


def _connect_arguments(schema: str, idle_seconds: int) -> dict[str, Any]:
    """Return the parameters for libpq; a peer that is gone is noticed after about 10 s."""
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
    """Whether a connection was refused because a connection limit is reached."""
    if getattr(error, "sqlstate", None) == _TOO_MANY:
        return True
    # psycopg may raise a refusal while connecting without its SQLSTATE.
    return isinstance(error, Exception) and any(text in str(error) for text in _FULL_SAID)


def is_away(error: BaseException) -> bool:
    """Whether nothing answered, or a server that goes down or comes up: it may answer soon."""
    return isinstance(error, Exception) and any(text in str(error) for text in _AWAY_SAID)


class PatientPool(QueuePool):
    """A pool that waits for one of its own connections when the server refuses another.

    It closes idle connections after some calm, and sooner after a refusal, because other processes
    may be waiting for one.
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
        # This process has no connection at all, so none will come back to the pool.
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
        """Whether a returned connection can be closed: another one is idle, and demand is low."""
        now = monotonic()
        is_calm = now - self._needed_at > _CALM_SECONDS
        is_scarce = now - self._refused_at < _SCARCE_SECONDS
        return self.checkedin() > 0 and (is_calm or is_scarce)


def wait_for_server(connect: Callable[[], T], patience_seconds: float) -> T:
    """Connect, and try again while the server is away.

    DBOS would do so as well, but it waits up to 90 seconds between two tries: turns stood still for
    that long after the database was back.
    """
    until = monotonic() + patience_seconds
    has_warned = False
    while True:
        try:
            return connect()
        except Exception as error:
            if not is_away(error) or monotonic() > until:
                raise
            if not has_warned:
                cause = str(error).strip().splitlines()[0]
                logger.warning("the database is away, this process waits cause=%s", cause)
                has_warned = True
        # With jitter: the workers that lost the same database do not come back in step.
        time.sleep(_AWAY_SECONDS * random.uniform(0.5, 1.5))


def make_engine(
    url: str, connections: int, patience_seconds: float, schema: str, idle_seconds: int
) -> sa.Engine:
    """Return an engine that opens at most `connections` connections, on demand."""
    engine = sa.create_engine(
        sa.make_url(url).set(drivername="postgresql+psycopg"),
        poolclass=PatientPool,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=patience_seconds,
        # Errors are logged, and parameters contain prompts and plans.
        hide_parameters=True,
        connect_args=_connect_arguments(schema, idle_seconds),
    )

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, record: Any, given: Any, options: Any) -> Any:  # pyright: ignore[reportUnusedFunction] - called by SQLAlchemy
        return wait_for_server(lambda: dialect.connect(*given, **options), patience_seconds)

    return engine
