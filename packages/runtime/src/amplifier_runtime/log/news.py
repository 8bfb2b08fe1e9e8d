"""Who follows which log, and waking them: by notification, and by a look that makes it sure."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Generator
from contextvars import Context
from typing import Any

import sqlalchemy as sa

from amplifier_runtime.database.database import Connection, Database, all_among

__all__ = ["CHANNEL", "EventNews"]

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
