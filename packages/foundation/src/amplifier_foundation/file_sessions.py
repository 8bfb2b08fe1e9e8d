"""Sessions in a folder, for programs that run them in their own process."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from amplifier_foundation import rewind
from amplifier_foundation.live import LiveSession, open_live
from amplifier_foundation.store import SessionNotFoundError, SessionReader, SessionStore

__all__ = ["FileSessions"]


class FileSessions:
    """Opens, reads, forks, lists and deletes the sessions in a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._store = SessionStore(Path(folder))

    def read(self, session_id: str) -> SessionReader:
        """Return a session's log as written so far."""
        return self._store.read(session_id)

    def fork(self, session_id: str, *, at: int | None = None) -> str:
        """Create a session with another's records up to number `at`, and return its id."""
        return rewind.fork(self._store, session_id, at=at)

    def session_ids(self) -> list[str]:
        """Return the ids of all sessions, the latest first."""
        return [each.session_id for each in self._store.list()]

    def delete(self, session_id: str) -> None:
        """Delete a session."""
        self._store.delete(session_id)

    @asynccontextmanager
    async def open(
        self,
        plan: dict[str, Any],
        *,
        session_id: str | None,
        approval_system: Any,
        display_system: Any,
        capabilities: Mapping[str, Any],
    ) -> AsyncGenerator[LiveSession]:
        """Open a session, and continue it if it exists; None for a new one."""
        async with open_live(
            plan,
            store=self._store,
            project=Path.cwd(),
            session_id=session_id,
            resume=session_id is not None and self._has(session_id),
            approval_system=approval_system,
            display_system=display_system,
            capabilities=capabilities,
        ) as live:
            yield live

    def _has(self, session_id: str) -> bool:
        try:
            self._store.read(session_id)
        except SessionNotFoundError:
            return False
        return True
