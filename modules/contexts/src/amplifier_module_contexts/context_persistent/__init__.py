"""context-persistent: the conversation in an append-only file with one writer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.secrets.messages import MessageScrubber
from amplifier_kit.threads import open_in_thread
from amplifier_module_contexts.context_persistent.config import PersistentConfig
from amplifier_module_contexts.context_persistent.context import (
    BLANKED,
    RECOVERED,
    SYNC_FAILED,
    PersistentContextManager,
)
from amplifier_module_contexts.context_persistent.location import log_path
from amplifier_module_contexts.context_persistent.message_log import MessageLog
from amplifier_module_contexts.mounting import mount_context, tell_replaced_tools

__amplifier_module_type__ = "context"
__all__ = ["PersistentContextManager", "mount", "on_session_ready"]

# Capability by which an app takes the session over from the process that has it open.
_TAKEOVER = "session.takeover"
_TURN_ENDS = (events.PROMPT_COMPLETE, events.EXECUTION_END, events.ORCHESTRATOR_COMPLETE)


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], Awaitable[None]]:
    """Open the file and mount the context. Config: see `PersistentConfig`.

    Cleanup: syncs the file to disk, closes it and releases its lock.
    """
    settings = PersistentConfig.model_validate(config or {})
    path = log_path(coordinator, settings.path)
    if settings.blank_secrets:
        scrubber = MessageScrubber(coordinator)
    else:
        scrubber = None
    takeover = settings.takeover or coordinator.get_capability(_TAKEOVER) is True
    log = await open_in_thread(
        MessageLog.open, path, coordinator.session_id, takeover=takeover, scrubber=scrubber
    )
    context = PersistentContextManager(
        settings, log, hooks=coordinator.hooks, coordinator=coordinator
    )
    undo = await mount_context(coordinator, context, announces=(RECOVERED, SYNC_FAILED, BLANKED))
    listening = [
        coordinator.hooks.register(event, context.sync_at_turn_end, name=context.name)
        for event in _TURN_ENDS
    ]

    async def cleanup() -> None:
        undo()
        for stop_listening in listening:
            stop_listening()
        await context.close()

    return cleanup


async def on_session_ready(coordinator: ModuleCoordinator) -> None:
    """Announce what was recovered, and if another module replaced `read_result`."""
    context: Any = coordinator.mount_points["context"]
    if isinstance(context, PersistentContextManager):
        await context.tell_recovery()
    await tell_replaced_tools(coordinator)
