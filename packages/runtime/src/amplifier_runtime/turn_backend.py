"""Durable sessions for programs: one object for the client, the log, the signals and a worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.migrate import applied, check_schema, migrate
from amplifier_runtime.errors import NoDatabaseError, TurnFailedError
from amplifier_runtime.log.reader import LogEntry, LogReader
from amplifier_runtime.signals.signals import Signals
from amplifier_runtime.worker.worker import Worker, WorkerSettings
from amplifier_runtime.worker_parts import all_parts

__all__ = ["DatabaseTurns"]

_ENDED = "turn.ended"
_PATIENCE_SECONDS = 5.0


class DatabaseTurns:
    """The sessions of one tenant in one database; open it before use."""

    def __init__(self, url: str, tenant: str) -> None:
        self._url = url
        self._tenant = tenant
        self._database = Database(url)
        self._client = Client(self._database, tenant)
        self._signals = Signals(self._database, tenant)
        self._reader = LogReader(self._database)

    async def open(self) -> None:
        """Connect; makes the tables of an empty database.

        Raises:
            SchemaError: the tables are those of another version.
            NoDatabaseError: there is no database at the address, or it does not answer.
        """
        # Somebody waits for the program to start: not the minute that a worker retries for.
        database = Database(self._url, connections=2, patience_seconds=_PATIENCE_SECONDS)
        try:
            if not await applied(database):
                await migrate(database)
            await check_schema(database)
        except SQLAlchemyError as error:
            raise NoDatabaseError(str(error).splitlines()[0]) from None
        finally:
            database.close()

    async def close(self) -> None:
        """Disconnect."""
        self._database.close()

    async def create_session(self, session_id: str, plan: dict[str, Any]) -> None:
        """Create a session; an existing one stays unchanged."""
        await self._client.create_session(session_id, plan)

    async def update_session(self, session_id: str, plan: dict[str, Any]) -> None:
        """Give a session another plan, from its next turn on."""
        await self._client.update_session(session_id, plan)

    async def session_ids(self, *, limit: int, offset: int) -> list[str]:
        """Return the ids of the sessions, the latest first."""
        return await self._client.session_ids(limit=limit, offset=offset)

    async def delete_session(self, session_id: str) -> None:
        """Delete a session with all it has."""
        await self._client.delete_session(session_id)

    async def submit(
        self,
        session_id: str,
        prompt: str | list[dict[str, Any]],
        *,
        key: str,
        output_schema: dict[str, Any] | None,
        metadata: dict[str, Any] | None,
    ) -> str:
        """Append a turn and return its id; the same key returns the same turn."""
        turn = await self._client.submit(
            session_id,
            prompt,
            idempotency_key=key,
            output_schema=output_schema,
            metadata=metadata,
        )
        return turn.turn_id

    async def answer_of(self, turn_id: str) -> str | None:
        """Wait for the end of a turn and return its answer; None if it was cancelled.

        Raises:
            TurnFailedError: it ended with an error.
        """
        return (await self._client.result(turn_id)).answer

    async def entries(self, session_id: str, turn_id: str) -> AsyncGenerator[LogEntry]:
        """Yield what the log has of a turn, and then live until its end."""
        cursor = ""
        end = asyncio.create_task(self._end_of(turn_id))
        try:
            async with aclosing(self._reader.tail(self._tenant, session_id)) as entries:
                while (entry := await _next_until(end, entries)) is not None:
                    cursor = entry.cursor
                    if entry.turn_id == turn_id:
                        yield entry
                        if entry.kind == _ENDED:
                            return
            # A turn that was cancelled before it ran has no log. Any other one ends together with
            # its last records, so they are there now.
            while page := await self._reader.read(self._tenant, session_id, after=cursor):
                for entry in page:
                    cursor = entry.cursor
                    if entry.turn_id == turn_id:
                        yield entry
        finally:
            end.cancel()

    async def _end_of(self, turn_id: str) -> None:
        with contextlib.suppress(TurnFailedError):
            await self._client.result(turn_id)

    async def decide(self, approval_id: str, option: str, *, by: str) -> None:
        """Answer a question."""
        await self._signals.answer(approval_id, option, by=by)

    async def cancel(self, turn_id: str, *, immediate: bool) -> None:
        """Ask a turn to stop."""
        await self._signals.cancel(turn_id, immediate=immediate)

    @asynccontextmanager
    async def worker(self, *, concurrency: int) -> AsyncGenerator[None]:
        """Run turns of the database in this process; leaving hands them over."""
        database = Database(self._url)
        try:
            settings = WorkerSettings(
                self._url,
                concurrency=concurrency,
                database=database,
                parts=all_parts(database),
            )
            async with Worker(settings):
                yield
        finally:
            database.close()


async def _next_until(
    end: asyncio.Task[None], entries: AsyncGenerator[LogEntry]
) -> LogEntry | None:
    """Return the next entry, or None if `end` comes first."""
    following = asyncio.ensure_future(anext(entries))
    try:
        await asyncio.wait((following, end), return_when=asyncio.FIRST_COMPLETED)
        return following.result() if following.done() else None
    finally:
        if not following.done():
            following.cancel()
            # Until it has ended, the generator cannot be closed.
            await asyncio.wait((following,))
