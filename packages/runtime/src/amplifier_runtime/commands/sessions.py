"""Durable sessions for the commands that show, replay and fork any session."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from amplifier_journal.memory import MemoryLog
from amplifier_journal.records import Record
from amplifier_runtime.commands.address import default_url, run_on
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.migrate import check_schema
from amplifier_runtime.log.stored import follow_log, fork_session, read_log

__all__ = ["DurableSessions", "StoredLog"]


class StoredLog(MemoryLog):
    """The log of a durable session: the records when it was read, and those that follow."""

    def __init__(self, read: MemoryLog, url: str, tenant: str) -> None:
        super().__init__(read.session_id, read.metadata)
        self.written = read.written
        self._url = url
        self._tenant = tenant

    async def tail(self, after: int = 0) -> AsyncGenerator[Record]:
        """Yield the records after number `after`, and then each as it is written."""
        database = Database(self._url, connections=2)
        try:
            records = follow_log(database, self._tenant, self.session_id, after=after)
            async with aclosing(records):
                async for record in records:
                    yield record
        finally:
            database.close()


class DurableSessions:
    """The sessions of one tenant in one database."""

    def __init__(self, url: str | None, tenant: str) -> None:
        self._url = url or default_url()
        self._tenant = tenant

    def read(self, session_id: str) -> StoredLog:
        """Return a session's log as written so far."""

        async def work(database: Database) -> MemoryLog:
            await check_schema(database)
            return await read_log(database, self._tenant, session_id)

        return StoredLog(run_on(self._url, work), self._url, self._tenant)

    def fork(self, session_id: str, *, at: int | None = None) -> str:
        """Create a session with another's records up to number `at`, and return its id."""

        async def work(database: Database) -> str:
            await check_schema(database)
            return await fork_session(database, self._tenant, session_id, at=at)

        return run_on(self._url, work)
