"""context-simple: the conversation in memory, fitted to the model's window before every request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_module_context_simple.context import SimpleContextManager

__amplifier_module_type__ = "context"
__all__ = ["SimpleContextManager", "mount"]


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], None]:
    """Mount the memory. Config: see `ContextConfig`. Cleanup: it stops listening for usage."""
    context = SimpleContextManager(hooks=coordinator.hooks, **(config or {}))
    await coordinator.mount("context", context)
    announced = [events.CONTEXT_PRE_COMPACT, events.CONTEXT_POST_COMPACT, events.CONTEXT_COMPACTION]
    coordinator.register_contributor("observability.events", "context-simple", announced.copy)
    listening = [
        coordinator.hooks.register(event, context.calibration, name="context-simple")
        for event in (events.LLM_RESPONSE, events.PROVIDER_RESPONSE)
    ]

    def cleanup() -> None:
        for stop_listening in listening:
            stop_listening()

    return cleanup
