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
    """Mount the memory. Config: see `ContextConfig`. Cleanup: it stops listening for usage."""
    context = SimpleContextManager(
        hooks=coordinator.hooks, coordinator=coordinator, **(config or {})
    )
    return await mount_context(coordinator, context)


async def on_session_ready(coordinator: ModuleCoordinator) -> None:
    """Say it when another module's tool took the place of `read_result`."""
    await tell_replaced_tools(coordinator)
