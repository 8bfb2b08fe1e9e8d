"""Ended child sessions in a store on files, which can be continued."""

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

# An id is the name of a folder, for which file systems allow 255 bytes.
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
        """Whether a new session may have this id: it is a valid folder name, and not taken."""
        if folder_name(session_id) != session_id or len(session_id.encode()) > _LONGEST_ID:
            return False
        return not await asyncio.to_thread(self._exists, session_id)

    async def find(self, session_id: str, parent_id: str) -> EndedChild:
        """Return a child of the session `parent_id`.

        Raises:
            FileNotFoundError: this session has no such child. The error is the same for a session
                that exists and is not its child, so that ids cannot be probed.
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
