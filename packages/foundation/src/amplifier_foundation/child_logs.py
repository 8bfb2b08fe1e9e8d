"""The logs of child sessions on files: made for a new one, continued for one that is resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_foundation.reading.state import SessionState, state_of
from amplifier_foundation.recording.recorder import ChildLog, OpenChild, Recorder
from amplifier_foundation.spawn.capabilities import offer_spawning
from amplifier_foundation.spawn.ended_children import SPAWNED, EndedChildren
from amplifier_kit.children.tasks import ABOUT
from amplifier_kit.secrets.messages import MessageScrubber

if TYPE_CHECKING:
    from amplifier_foundation.store import SessionStore

__all__ = ["child_logs"]

Update = Callable[[Any, Recorder, SessionState], Awaitable[None]]
"""Brings what lists show of a session up to date: its recorder, and where it stood before."""


def child_logs(store: SessionStore, project: Path, update: Update) -> OpenChild:
    """Return what makes the log of a child."""
    ended = EndedChildren(store)

    def open_child(parent: Recorder, coordinator: Any, scrubber: MessageScrubber) -> ChildLog:
        # A module may have forked it itself; others were prepared before they mounted.
        offer_spawning(coordinator, ended)
        session_id: str = coordinator.session_id
        before = SessionState()
        if coordinator.session.is_resumed:
            before = state_of(store.read(session_id).records())
            writer = store.open(session_id, scrub=scrubber.scrub)
        else:
            metadata = _metadata(parent, coordinator, scrubber)
            writer = store.create(
                session_id, project=project, metadata=metadata, scrub=scrubber.scrub
            )
        coordinator.register_capability("session.folder", str(writer.folder))

        async def close(child: Recorder) -> None:
            await update(coordinator.session, child, before)
            await asyncio.to_thread(writer.close)

        return ChildLog(writer, close, before)

    return open_child


def _metadata(parent: Recorder, coordinator: Any, scrubber: MessageScrubber) -> dict[str, Any]:
    metadata = {"status": "running", "parent_id": parent.coordinator.session_id}
    spawned: dict[str, Any] | None = coordinator.get_capability(ABOUT)
    if spawned is None:
        return metadata
    return {**metadata, SPAWNED: scrubber.scrub(spawned)}
