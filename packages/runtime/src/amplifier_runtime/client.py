"""The client API for apps: submit turns, wait for results, read sessions and turns."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_kit.trace_context import current_trace_context
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.store import Session, Store, Turn
from amplifier_runtime.errors import NoWorkerError, TurnFailedError
from amplifier_runtime.worker.liveness import has_worker

__all__ = ["Client"]

_FIRST_POLL = 0.02
_LONGEST_POLL = 0.5


class Client:
    """One tenant's view of the runtime; ids of other tenants are not found."""

    def __init__(self, database: Database, tenant_id: str) -> None:
        self.tenant_id = tenant_id
        self._database = database
        self._store = Store(database)

    async def create_session(
        self, session_id: str, plan: dict[str, Any], *, parent_id: str | None = None
    ) -> Session:
        """Create a session with its mount plan; an existing one is returned unchanged."""
        return await self._store.create_session(
            self.tenant_id, session_id, plan, parent_id=parent_id
        )

    async def session(self, session_id: str) -> Session:
        """Return a session."""
        return await self._store.session(self.tenant_id, session_id)

    async def update_session(self, session_id: str, plan: dict[str, Any]) -> None:
        """Give a session another plan, from its next turn on.

        Raises:
            SessionBusyError: a turn of it is not finished.
        """
        await self._store.update_session(self.tenant_id, session_id, plan)

    async def session_ids(self, *, limit: int = 100, offset: int = 0) -> list[str]:
        """Return the ids of the sessions, the latest first, without children."""
        return await self._store.session_ids(self.tenant_id, limit=limit, offset=offset)

    async def delete_session(self, session_id: str) -> None:
        """Delete a session and its children, with their logs.

        Raises:
            SessionBusyError: a turn of it is not finished.
        """
        await self._store.delete_session(self.tenant_id, session_id)

    async def messages(self, session_id: str) -> list[dict[str, Any]]:
        """Return a session's history."""
        return await self._store.messages(self.tenant_id, session_id)

    async def submit(
        self,
        session_id: str,
        prompt: str | list[dict[str, Any]],
        *,
        idempotency_key: str,
        needs_worker: bool = False,
        output_schema: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Turn:
        """Append a turn to its session's queue; the same key returns the same turn.

        A prompt is a text, or blocks of content with images or files. The answer has to match
        `output_schema`; `metadata` is stored with the turn. The turn's spans belong to the trace
        of the OpenTelemetry span in which this is called.

        Raises:
            NoWorkerError: `needs_worker`, and no worker is running.
        """
        if needs_worker and not await self.has_worker():
            raise NoWorkerError
        return await self._store.submit(
            self.tenant_id,
            session_id,
            prompt,
            idempotency_key=idempotency_key,
            output_schema=output_schema,
            metadata=metadata,
            trace_context=current_trace_context(),
        )

    async def turn(self, turn_id: str) -> Turn:
        """Return a turn in its present state."""
        return await self._store.turn(self.tenant_id, turn_id)

    async def turns(self, session_id: str) -> list[Turn]:
        """Return the turns of a session, in order."""
        return await self._store.turns(self.tenant_id, session_id)

    async def result(self, turn_id: str) -> Turn:
        """Wait until a turn is finished and return it; bound it with `asyncio.timeout`.

        Raises:
            TurnFailedError: it ended with an error.
        """
        wait = _FIRST_POLL
        while True:
            turn = await self.turn(turn_id)
            if turn.state == "failed":
                raise TurnFailedError(turn_id, turn.error or {})
            if turn.is_finished:
                return turn
            await asyncio.sleep(wait)
            # Backs off: short turns are seen early, long ones cost two queries a second.
            wait = min(wait * 1.5, _LONGEST_POLL)

    async def has_worker(self) -> bool:
        """Whether a worker has sent a heartbeat lately."""
        return await self._database.run(has_worker)
