"""The database: transactions run in threads, and are retried when the connection fails."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import random
import shlex
import stat
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from amplifier_kit.durable_files import make_private_folder
from amplifier_kit.valid_text import valid_text
from amplifier_runtime.database.clock import NOW, in_sql, monotonic
from amplifier_runtime.database.connections import make_engine
from amplifier_runtime.errors import ExposedDatabaseError
from amplifier_sandbox.ownership import exposure_of, is_own_place

logger = logging.getLogger(__name__)

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# The files that SQLite creates beside its database, with the mode that the database file has.
_BESIDE = ("-wal", "-shm", "-journal")
_making = threading.Lock()


def make_private(url: str) -> None:
    """Make the file of an SQLite URL private to this user, and create it if it does not exist.

    An existing file is never opened: POSIX drops all locks of a process on a file when any of its
    descriptors is closed, so closing it would release the locks of SQLite.

    Raises:
        ExposedDatabaseError: another user could have written it, or its mode cannot be changed.
    """
    path = _file_of(url)
    if path is None:
        return
    if is_own_place(path):
        # SQLite reports the reason when it opens the database.
        with contextlib.suppress(OSError):
            make_private_folder(path.parent)
        _narrow(path.parent)
    # Of two threads, the one that creates the file has closed it before the other lets SQLite
    # open it: closing it later would release that one's locks.
    with _making:
        _make(path)
    # Narrowing the mode is not enough here: another user may have changed the data already.
    exposure = exposure_of(path)
    if exposure is not None:
        raise ExposedDatabaseError(exposure.why, exposure.fix)
    for each in (path, *(path.with_name(path.name + end) for end in _BESIDE)):
        _narrow(each)


def _file_of(url: str) -> Path | None:
    """Return the file of a URL, or None for a database in memory."""
    name = sa.make_url(url).database or ""
    if name.startswith("file:"):
        name = unquote(name.removeprefix("file:").partition("?")[0])
        if name.startswith("///"):
            name = name.removeprefix("//")
    if name in ("", ":memory:"):
        return None
    return Path(name).absolute()


def _make(path: Path) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        # It exists, or SQLite reports the reason when it opens it.
        return
    os.close(file)


def _narrow(path: Path) -> None:
    """Remove the permissions of group and others from an existing file or folder."""
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


T = TypeVar("T")
Connection = sa.Connection
Row = sa.RowMapping

SCHEMA = "amplifier"
IDLE_SECONDS = 5
"""How long PostgreSQL waits in an open transaction for a process that was paused or cut off.

Its locks would hold up those who take over from it. It is given up as a worker by then.
"""
# Another transaction won (40...), the server has no free connection (53...), is going down or
# coming up (57...), or this process was paused too long inside a transaction (25...).
_RETRIED_STATES = frozenset({"25P03", "40001", "40P01", "53300", "57P01", "57P02", "57P03"})
_SHORTEST_WAIT = 0.02
_LONGEST_WAIT = 1.0
# SQLite has one writer at a time, so that more threads would only wait for it.
_SQLITE_THREADS = 10


@functools.cache
def _statement(sql: str, dialect: str) -> sa.TextClause:
    return sa.text(in_sql(sql, dialect))


def execute(connection: Connection, sql: str, **values: Any) -> int:
    """Run a statement and return how many rows it changed."""
    return _result(connection, sql, values).rowcount


def one_of(connection: Connection, sql: str, **values: Any) -> Row | None:
    """Return the first row of the result, or None."""
    return _result(connection, sql, values).mappings().first()


def all_of(connection: Connection, sql: str, **values: Any) -> Sequence[Row]:
    """Return all rows of the result."""
    return _result(connection, sql, values).mappings().all()


def execute_many(connection: Connection, sql: str, rows: list[dict[str, Any]]) -> None:
    """Run a statement once for each row."""
    connection.execute(_statement(sql, connection.dialect.name), [_valid(row) for row in rows])


def read_now(connection: Connection) -> int:
    """Return the database's clock in milliseconds; a statement says `now_ms()` instead."""
    row = one_of(connection, f"SELECT {NOW} AS now")
    assert row is not None
    return row["now"]


def all_among(
    connection: Connection, sql: str, among: Iterable[str], **values: Any
) -> Sequence[Row]:
    """Return all rows of the result of a statement that has `IN :among`."""
    return _result_among(connection, sql, among, values).mappings().all()


def execute_among(connection: Connection, sql: str, among: Iterable[str], **values: Any) -> int:
    """Run a statement that has `IN :among` and return how many rows it changed."""
    return _result_among(connection, sql, among, values).rowcount


def _result(connection: Connection, sql: str, values: dict[str, Any]) -> sa.CursorResult[Any]:
    return connection.execute(_statement(sql, connection.dialect.name), _valid(values))


def _result_among(
    connection: Connection, sql: str, among: Iterable[str], values: dict[str, Any]
) -> sa.CursorResult[Any]:
    texts = [valid_text(each) for each in among]
    return connection.execute(
        _among(sql, connection.dialect.name), {"among": texts, **_valid(values)}
    )


def _valid(values: dict[str, Any]) -> dict[str, Any]:
    """Return values whose texts can be stored: no NUL (PostgreSQL), no lone surrogate (UTF-8)."""
    return {name: valid_text(each) if type(each) is str else each for name, each in values.items()}


@functools.cache
def _among(sql: str, dialect: str) -> sa.TextClause:
    return sa.text(in_sql(sql, dialect)).bindparams(sa.bindparam("among", expanding=True))


class Database:
    """One database by its URL: `sqlite:///path` or `postgresql://...`.

    On PostgreSQL the runtime's tables are in a schema of their own. There are at most `connections`
    connections; with fewer it is slower. `patience_seconds` is how long a transaction is retried
    while the database cannot be reached.
    """

    def __init__(self, url: str, *, connections: int = 10, patience_seconds: float = 60.0) -> None:
        self.url = url
        self.is_sqlite = url.startswith("sqlite")
        self._patience = patience_seconds
        if self.is_sqlite:
            threads = min(connections, _SQLITE_THREADS)
        else:
            threads = connections
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="amplifier-database")
        if self.is_sqlite:
            self.engine = _sqlite(url)
        else:
            self.engine = make_engine(url, connections, patience_seconds, SCHEMA, IDLE_SECONDS)

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction and return what it returns.

        `work` is retried when the connection fails, also during the commit, when it is not known
        whether that took effect. So `work` must be idempotent.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.transact, work)

    def transact(self, work: Callable[[Connection], T]) -> T:
        """Do what `run` does, in the calling thread."""

        def once() -> T:
            with self.engine.begin() as connection:
                return work(connection)

        return persistently(once, self._patience)

    def close(self) -> None:
        """Stop the threads and close the connections."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self.engine.dispose()


def persistently(work: Callable[[], T], patience_seconds: float = 60.0) -> T:
    """Run `work`, and retry it while the database cannot be reached, in the calling thread."""
    until = monotonic() + patience_seconds
    wait = _SHORTEST_WAIT
    while True:
        try:
            return work()
        except (DBAPIError, PoolTimeoutError) as error:
            if not _may_pass(error) or monotonic() + wait > until:
                raise
            logger.warning("transaction tried again wait=%.2f cause=%s", wait, error)
        # With jitter: the workers that lost the same database do not come back in step.
        time.sleep(wait * random.uniform(0.5, 1.5))
        wait = min(wait * 2, _LONGEST_WAIT)


def _may_pass(error: Exception) -> bool:
    """Whether the same transaction may succeed if it is retried."""
    if isinstance(error, PoolTimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    if state in _RETRIED_STATES or error.connection_invalidated:
        return True
    if isinstance(error, InterfaceError):
        return True
    said = str(error.orig)
    # Without an SQLSTATE, the server was not reached, or the connection broke.
    return isinstance(error, OperationalError) and (
        "database is locked" in said or (state is None and "sqlite" not in repr(type(error.orig)))
    )


def _sqlite(url: str) -> sa.Engine:
    make_private(url)
    # Errors are logged, and parameters contain prompts and plans.
    engine = sa.create_engine(url, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:  # pyright: ignore[reportUnusedFunction] - called by SQLAlchemy
        # Writers wait for the lock at their first statement, instead of failing at a later one.
        connection.isolation_level = "IMMEDIATE"
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA busy_timeout=30000")
        connection.execute("PRAGMA foreign_keys=ON")

    return engine
