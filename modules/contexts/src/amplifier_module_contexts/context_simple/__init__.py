"""context-simple: the conversation in memory, fitted to the model's window before every request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_module_contexts.context_simple.context import SimpleContextManager
from amplifier_module_contexts.mounting import mount_context, tell_replaced_tools

__amplifier_module_type__ = "context"
__all__ = ["SimpleContextManager", "mount", "on_session_ready"]


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], None]:
    """Mount the context. Config: see `ContextConfig`. Cleanup: unregisters hooks and tools."""
    context = SimpleContextManager(
        hooks=coordinator.hooks, coordinator=coordinator, **(config or {})
    )
    return await mount_context(coordinator, context)


async def on_session_ready(coordinator: ModuleCoordinator) -> None:
    """Announce if another module's tool replaced `read_result`."""
    await tell_replaced_tools(coordinator)
