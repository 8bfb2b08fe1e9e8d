"""Reading logs from any machine: from a cursor on, without gaps or repetitions, and then live."""

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
# On SQLite nobody notifies. Elsewhere this only makes up for a notification that got lost.
_SQLITE_POLL_SECONDS = 0.02
_POLL_SECONDS = 1.0
_DEAF_POLL_SECONDS = 0.25
_CHECK_SECONDS = 10.0
_AGAIN_SECONDS = 0.5


class EventNews:
    """Wakes the readers of this process, with one query for all of them at a time."""

    def __init__(self, database: Database, poll_seconds: float | None = None) -> None:
        self._database = database
        self._poll_seconds = poll_seconds
        self._readers: dict[str, list[asyncio.Event]] = {}
        self._seen: dict[str, tuple[int, int]] = {}
        self._is_listening = False
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.contextmanager
    def of(self, session_id: str) -> Generator[asyncio.Event]:
        """Give an event that is set whenever there may be news of a log."""
        news = asyncio.Event()
        self._readers.setdefault(session_id, []).append(news)
        if not self._tasks:
            if self._database.is_sqlite:
                works = [self._look()]
            else:
                works = [self._look(), self._listen()]
            self._tasks = [asyncio.create_task(each, context=Context()) for each in works]
        try:
            yield news
        finally:
            self._readers[session_id].remove(news)
            if not self._readers[session_id]:
                del self._readers[session_id]
                self._seen.pop(session_id, None)
            if not self._readers:
                while self._tasks:
                    self._tasks.pop().cancel()

    def _wake(self, session_id: str) -> None:
        for news in self._readers.get(session_id, ()):
            news.set()

    def _wake_all(self) -> None:
        for session_id in self._readers:
            self._wake(session_id)

    # --- looking ---------------------------------------------------------------------------------

    async def _look(self) -> None:
        """See by itself which logs have grown: what makes everything else a matter of speed."""
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
        """Wake whoever a notification is about, until the connection breaks."""
        import psycopg  # noqa: PLC0415 - one machine on SQLite has none

        address = sa.make_url(self._database.url).set(drivername="postgresql")
        connection: Any = await psycopg.AsyncConnection.connect(
            address.render_as_string(hide_password=False), autocommit=True, connect_timeout=5
        )
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            self._is_listening = True
            # What was notified in the meantime reached nobody.
            self._wake_all()
            while True:
                async for told in connection.notifies(timeout=_CHECK_SECONDS):
                    for session_id in told.payload.split("\n"):
                        self._wake(session_id)
                    if not told.payload:
                        self._wake_all()
                # A connection that died without a word is found out by asking.
                await connection.execute("SELECT 1")


# Stands for events that a reader has not had and that are deleted.
GONE = "log.gone"
_PAGE = 500
# How many readers are served at a time.
_TOGETHER = 200
_HEAD = 0
_EVENT = 1


class Place(NamedTuple):
    """Behind which event of a log a reader stands, and behind which live event after it."""

    seq: int = 0
    number: int = 0

    @classmethod
    def of(cls, cursor: str) -> Place:
        """Read a cursor.

        Raises:
            CursorError: it is none.
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
    """One thing that a reader gets; `cursor` is where to continue after it.

    A record of the log has its `seq` and is there for good. A live event (`number` is not 0) shows
    progress after that record: a record `log.superseded` with its number makes it void, and so
    does the end of its turn. `log.gone` stands for the deleted records `first` to `last`.
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
        """What happened, in one word: the name of an event, else the kind of the record."""
        if self.kind == "event":
            return self.data["name"]
        return self.kind

    @property
    def is_live(self) -> bool:
        """Whether it only shows progress."""
        return self.number > 0


class LogReader:
    """Reads the logs of one database; one for a process is enough, for any number of readers.

    `poll_seconds` is how long a reader waits at most who is not notified.
    """

    def __init__(self, database: Database, *, poll_seconds: float | None = None) -> None:
        self._database = database
        self._store = Store(database)
        self._news = EventNews(database, poll_seconds)
        self._pages = _Pages(database)

    async def read(self, tenant_id: str, session_id: str, *, after: str = "") -> list[LogEntry]:
        """Return what comes after a cursor, a page of it; nothing when that is all.

        Raises:
            NotFoundError: there is no such session.
            CursorError: the cursor is none of this log.
        """
        key = await self._store.session_key(tenant_id, session_id)
        return (await self._page(key, session_id, Place.of(after)))[0]

    async def tail(
        self, tenant_id: str, session_id: str, *, after: str = ""
    ) -> AsyncGenerator[LogEntry]:
        """Yield what comes after a cursor, and then what happens, for ever.

        Raises:
            NotFoundError: there is no such session.
            CursorError: the cursor is none of this log.
        """
        place = Place.of(after)
        key = await self._store.session_key(tenant_id, session_id)
        with self._news.of(key) as news:
            while True:
                news.clear()
                page, is_all = await self._page(key, session_id, place)
                for entry in page:
                    place = Place(entry.seq, entry.number)
                    yield entry
                if is_all:
                    await news.wait()

    async def _page(self, key: str, session_id: str, place: Place) -> tuple[list[LogEntry], bool]:
        rows = await self._pages.read(key, place)
        return _entries(session_id, place, rows)


class _Pages:
    """Reads for all readers who want something at the same time, in one statement."""

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
        # Whoever was woken by the same news comes along.
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
        except Exception as raised:  # noqa: BLE001 - whoever reads gets it
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
# `first` is the oldest event that is left. What all parts of the statement see is one moment.
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
    """Bring a page into order, with what stands for events that are gone; and whether it is all."""
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
        # Not one of the page is left: on to the first that is, or to the end.
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

    Live rows have the name of an event, and so do those that versions before this one wrote.
    """
    if ":" not in name:
        return name, data
    return "event", {"name": name, "data": data}


def _gone(session_id: str, after: int, last: int) -> LogEntry:
    return LogEntry(session_id, last, 0, "", GONE, {"first": after + 1, "last": last}, 0)
