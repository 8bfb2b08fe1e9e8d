"""Reads logs on any machine: after a cursor, without gaps or repetitions, and then live."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Generator, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa

from amplifier_runtime.database.database import Connection, Database, Row, all_among, all_of
from amplifier_runtime.database.store import Store
from amplifier_runtime.errors import CursorError

logger = logging.getLogger(__name__)

CHANNEL = "amplifier_log"
# SQLite has no notifications. On PostgreSQL, polling only makes up for lost ones.
_SQLITE_POLL_SECONDS = 0.02
_POLL_SECONDS = 1.0
_DEAF_POLL_SECONDS = 0.25
_CHECK_SECONDS = 10.0
_AGAIN_SECONDS = 0.5


class LogNotifier:
    """Wakes the readers of this process, with one polling query for all of them."""

    def __init__(self, database: Database, poll_seconds: float | None = None) -> None:
        self._database = database
        self._poll_seconds = poll_seconds
        self._readers: dict[str, list[asyncio.Event]] = {}
        self._seen: dict[str, tuple[int, int]] = {}
        self._is_listening = False
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.contextmanager
    def of(self, session_id: str) -> Generator[asyncio.Event]:
        """Yield an asyncio event that is set whenever a log may have grown."""
        wakeup = asyncio.Event()
        self._readers.setdefault(session_id, []).append(wakeup)
        if not self._tasks:
            if self._database.is_sqlite:
                works = [self._look()]
            else:
                works = [self._look(), self._listen()]
            # In an empty context: they outlive the reader that happens to start them.
            self._tasks = [asyncio.create_task(each, context=Context()) for each in works]
        try:
            yield wakeup
        finally:
            self._readers[session_id].remove(wakeup)
            if not self._readers[session_id]:
                del self._readers[session_id]
                self._seen.pop(session_id, None)
            if not self._readers:
                while self._tasks:
                    self._tasks.pop().cancel()

    def _wake(self, session_id: str) -> None:
        for wakeup in self._readers.get(session_id, ()):
            wakeup.set()

    def _wake_all(self) -> None:
        for session_id in self._readers:
            self._wake(session_id)

    # --- looking ---------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Poll which logs have grown, so that notifications matter for latency only."""
        while True:
            await asyncio.sleep(self._pause())
            try:
                ends = await self._database.run(self._ends)
            except Exception:
                logger.exception("logs not looked at")
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            for session_id, end in ends.items():
                if self._seen.get(session_id) != end:
                    self._wake(session_id)
            self._seen = ends

    def _pause(self) -> float:
        if self._poll_seconds is not None:
            return self._poll_seconds
        if self._database.is_sqlite:
            return _SQLITE_POLL_SECONDS
        if self._is_listening:
            return _POLL_SECONDS
        return _DEAF_POLL_SECONDS

    def _ends(self, connection: Connection) -> dict[str, tuple[int, int]]:
        rows = all_among(
            connection,
            "SELECT session_id, next_seq, (SELECT MAX(number) FROM live_events "
            "WHERE live_events.session_id = logs.session_id) AS number FROM logs "
            "WHERE session_id IN :among",
            tuple(self._readers),
        )
        return {row["session_id"]: (row["next_seq"], row["number"] or 0) for row in rows}

    # --- listening -------------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            try:
                await self._hear()
            except Exception:
                logger.exception("no notifications of logs; polling more often until they are back")
            finally:
                self._is_listening = False
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _hear(self) -> None:
        """Wake the readers that a notification is about, until the connection breaks."""
        import psycopg  # noqa: PLC0415 - an installation for SQLite need not have it

        address = sa.make_url(self._database.url).set(drivername="postgresql")
        connection: Any = await psycopg.AsyncConnection.connect(
            address.render_as_string(hide_password=False), autocommit=True, connect_timeout=5
        )
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            self._is_listening = True
            # Notifications sent before LISTEN took effect were not delivered.
            self._wake_all()
            while True:
                async for told in connection.notifies(timeout=_CHECK_SECONDS):
                    for session_id in told.payload.split("\n"):
                        self._wake(session_id)
                    if not told.payload:
                        self._wake_all()
                # A connection that was cut silently is detected only by using it.
                await connection.execute("SELECT 1")


# Takes the place of events that were deleted before a reader got them.
GONE = "log.gone"
_PAGE = 500
# How many readers are served by one statement.
_TOGETHER = 200
_HEAD = 0
_EVENT = 1


class Place(NamedTuple):
    """A reader's position: after which event of a log, and after which live event following it."""

    seq: int = 0
    number: int = 0

    @classmethod
    def of(cls, cursor: str) -> Place:
        """Read a cursor.

        Raises:
            CursorError: it is malformed.
        """
        parts = cursor.split(".") if cursor else ["0"]
        if len(parts) > len(cls._fields) or not all(_is_number(each) for each in parts):
            raise CursorError(cursor, "is not a cursor of a log")
        return cls(*map(int, parts))

    def __str__(self) -> str:
        if self.number:
            return f"{self.seq}.{self.number}"
        return f"{self.seq}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry for a reader; `cursor` is where to continue after it.

    A record of the log has a `seq` and is permanent. A live event (`number` is not 0) shows
    progress after that record; a record `log.superseded` with its number makes it void, and so does
    the end of its turn. `log.gone` takes the place of the deleted records `first` to `last`.
    """

    session_id: str
    seq: int
    number: int
    turn_id: str
    kind: str
    data: dict[str, Any]
    at: int

    @property
    def cursor(self) -> str:
        """Where to continue after this one."""
        return str(Place(self.seq, self.number))

    @property
    def name(self) -> str:
        """The name of an event, or the kind of any other record."""
        if self.kind == "event":
            return self.data["name"]
        return self.kind

    @property
    def is_live(self) -> bool:
        """Whether it only shows progress."""
        return self.number > 0


class LogReader:
    """Reads the logs of one database; a process needs only one, for any number of readers.

    `poll_seconds` is the longest delay for a reader that is not notified.
    """

    def __init__(self, database: Database, *, poll_seconds: float | None = None) -> None:
        self._database = database
        self._store = Store(database)
        self._notifier = LogNotifier(database, poll_seconds)
        self._pages = _Pages(database)

    async def read(self, tenant_id: str, session_id: str, *, after: str = "") -> list[LogEntry]:
        """Return a page of entries after a cursor; an empty list at the end of the log.

        Raises:
            NotFoundError: there is no such session.
            CursorError: the cursor is malformed, or ahead of this log.
        """
        key = await self._store.session_key(tenant_id, session_id)
        return (await self._page(key, session_id, Place.of(after)))[0]

    async def tail(
        self, tenant_id: str, session_id: str, *, after: str = ""
    ) -> AsyncGenerator[LogEntry]:
        """Yield the entries after a cursor, and then new ones for ever.

        Raises:
            NotFoundError: there is no such session.
            CursorError: the cursor is malformed, or ahead of this log.
        """
        place = Place.of(after)
        key = await self._store.session_key(tenant_id, session_id)
        with self._notifier.of(key) as wakeup:
            while True:
                # Before reading: what is written during the read sets it again.
                wakeup.clear()
                page, is_all = await self._page(key, session_id, place)
                for entry in page:
                    place = Place(entry.seq, entry.number)
                    yield entry
                if is_all:
                    await wakeup.wait()

    async def _page(self, key: str, session_id: str, place: Place) -> tuple[list[LogEntry], bool]:
        rows = await self._pages.read(key, place)
        return _entries(session_id, place, rows)


class _Pages:
    """Batches the reads of all readers that wait at the same time into one statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wanted: list[tuple[str, Place, asyncio.Future[list[Row]]]] = []
        self._task: asyncio.Task[None] | None = None

    async def read(self, session_id: str, place: Place) -> list[Row]:
        """Return the rows of a page."""
        wanted: asyncio.Future[list[Row]] = asyncio.get_running_loop().create_future()
        self._wanted.append((session_id, place, wanted))
        if self._task is None:
            self._task = asyncio.create_task(self._serve(), context=Context())
        return await wanted

    async def _serve(self) -> None:
        # One turn of the event loop, so that all readers woken by the same change join the batch.
        await asyncio.sleep(0)
        try:
            while self._wanted:
                batch = self._wanted[:_TOGETHER]
                self._wanted = self._wanted[_TOGETHER:]
                await self._serve_batch(batch)
        finally:
            self._task = None

    async def _serve_batch(self, batch: list[tuple[str, Place, asyncio.Future[list[Row]]]]) -> None:
        places = [
            {"at": at, "session_id": session_id, "seq": place.seq, "number": place.number}
            for at, (session_id, place, _) in enumerate(batch)
        ]
        pages = [list[Row]() for _ in batch]
        error: Exception | None = None
        try:
            for row in await self._database.run(partial(_rows, places=places)):
                at: int = row["at"]
                pages[at].append(row)
        except Exception as raised:  # noqa: BLE001 - handed to the readers
            error = raised
        for (_, _, wanted), page in zip(batch, pages, strict=True):
            if wanted.done():
                continue
            if error is None:
                wanted.set_result(page)
            else:
                wanted.set_exception(error)


_PLACES = {
    "postgresql": "jsonb_to_recordset(CAST(:places AS jsonb)) "
    "AS p(at integer, session_id text, seq bigint, number bigint)",
    "sqlite": "(SELECT json_extract(value, '$.at') AS at, json_extract(value, '$.session_id') AS "
    "session_id, json_extract(value, '$.seq') AS seq, json_extract(value, '$.number') AS number "
    "FROM json_each(:places)) AS p",
}
# One statement, so that events and live events are read from the same snapshot. `first` is the
# oldest event that is left after the reader's position.
_READ = (
    "SELECT p.at, 0 AS kind, l.next_seq - 1 AS seq, 0 AS number, '' AS turn_id, '' AS name, "
    "'' AS data, 0 AS created_at, (SELECT MIN(e.seq) FROM events e WHERE e.session_id = "
    "p.session_id AND e.seq > p.seq AND e.size > 0) AS first "
    "FROM {places} JOIN logs l ON l.session_id = p.session_id "
    "UNION ALL SELECT p.at, 1, e.seq, 0, e.turn_id, e.name, e.data, e.created_at, 0 "
    "FROM {places} JOIN events e ON e.session_id = p.session_id AND e.seq > p.seq "
    "AND e.seq <= p.seq + :page AND e.size > 0 "
    "UNION ALL SELECT p.at, 2, v.after_seq, v.number, v.turn_id, v.name, v.data, v.created_at, 0 "
    "FROM {places} JOIN live_events v ON v.session_id = p.session_id AND v.number > p.number "
    "AND v.after_seq >= p.seq AND v.after_seq <= p.seq + :page"
)


def _rows(connection: Connection, places: list[dict[str, Any]]) -> Sequence[Row]:
    sql = _READ.format(places=_PLACES[connection.dialect.name])
    return all_of(connection, sql, places=json.dumps(places), page=_PAGE)


def _entries(session_id: str, place: Place, rows: list[Row]) -> tuple[list[LogEntry], bool]:
    """Return a page in order, with markers for deleted events, and whether it reaches the end."""
    head = next((row for row in rows if row["kind"] == _HEAD), None)
    end = 0 if head is None else head["seq"]
    if place.seq > end:
        raise CursorError(str(place), f"is ahead of the log, which ends at {end}")
    entries: list[LogEntry] = []
    last = place.seq
    found = [row for row in rows if row["kind"] != _HEAD]
    for row in sorted(found, key=_order):
        before = row["seq"] - 1 if row["kind"] == _EVENT else row["seq"]
        if before > last:
            entries.append(_gone(session_id, last, before))
        last = row["seq"]
        entries.append(_entry(session_id, row))
    if head is not None and last == place.seq < end:
        # All events of the page are deleted: skip to the first that is left, or to the end.
        last = end if head["first"] is None else head["first"] - 1
        entries.append(_gone(session_id, place.seq, last))
    return entries, end == last


def _order(row: Row) -> tuple[int, int]:
    return row["seq"], row["number"]


def _entry(session_id: str, row: Row) -> LogEntry:
    kind, data = record_in(row["name"], json.loads(row["data"]))
    return LogEntry(
        session_id, row["seq"], row["number"], row["turn_id"], kind, data, row["created_at"]
    )


def record_in(name: str, data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the kind and the data of a row.

    Live rows, and all rows of earlier versions, have the name of an event instead of a kind.
    """
    if ":" not in name:
        return name, data
    return "event", {"name": name, "data": data}


def _gone(session_id: str, after: int, last: int) -> LogEntry:
    return LogEntry(session_id, last, 0, "", GONE, {"first": after + 1, "last": last}, 0)
