"""Child sessions that have ended, as far as they can be continued: on files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from amplifier_foundation.spawn.request import SpawnRequest
from amplifier_foundation.store.errors import SessionNotFoundError
from amplifier_journal.readings.state import state_of
from amplifier_kit.history_repair import repair_history
from amplifier_kit.session_folder import folder_name
from amplifier_kit.valid_text import valid

if TYPE_CHECKING:
    from amplifier_foundation.store import SessionStore

__all__ = ["SPAWNED", "EndedChild", "EndedChildren"]

SPAWNED = "spawned"
"""Where the metadata of a child has the request that it was started with."""

# The name of a folder; the longest that a file system takes is 255 bytes.
_LONGEST_ID = 200


class EndedChild(NamedTuple):
    """What a child needs to continue."""

    request: SpawnRequest
    messages: list[dict[str, Any]]
    state: dict[str, Any]


class EndedChildren:
    """The child sessions of a store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    async def is_free(self, session_id: str) -> bool:
        """Whether a new session may have this id: it names its own folder, and nobody has it."""
        if folder_name(session_id) != session_id or len(session_id.encode()) > _LONGEST_ID:
            return False
        return not await asyncio.to_thread(self._exists, session_id)

    async def find(self, session_id: str, parent_id: str) -> EndedChild:
        """Return a child of the session `parent_id`.

        Raises:
            FileNotFoundError: there is none of this id, or it is somebody else's. That it is there
                is not shown.
        """
        return await asyncio.to_thread(self._find, session_id, parent_id)

    def _exists(self, session_id: str) -> bool:
        try:
            self._store.read(session_id)
        except SessionNotFoundError:
            return False
        return True

    def _find(self, session_id: str, parent_id: str) -> EndedChild:
        try:
            reader = self._store.read(session_id)
        except SessionNotFoundError:
            raise _missing(session_id) from None
        request: Any = reader.metadata.get(SPAWNED)
        if reader.metadata.get("parent_id") != parent_id or not isinstance(request, dict):
            raise _missing(session_id)
        state = state_of(reader.records())
        messages, _ = repair_history(valid(state.messages))
        return EndedChild(SpawnRequest.model_validate(request), messages, valid(state.values))


def _missing(session_id: str) -> FileNotFoundError:
    return FileNotFoundError(f"This session has no child '{session_id[:200]}'.")
