"""context-summarizing: what no longer fits leaves a summary and a ledger behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_module_contexts.context_summarizing.config import SummarizingConfig
from amplifier_module_contexts.context_summarizing.context import (
    LEDGER_LOST,
    SUMMARIZED,
    SUMMARY_FAILED,
    SummarizingContextManager,
)
from amplifier_module_contexts.context_summarizing.remember import RememberTool
from amplifier_module_contexts.mounting import mount_context, tell_replaced_tools

__amplifier_module_type__ = "context"
__all__ = ["SummarizingContextManager", "mount", "on_session_ready"]

CAPABILITY = "context.ledger"


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], None]:
    """Mount the context, its tools and the capability `context.ledger`.

    Config: see `SummarizingConfig`. Cleanup: unregisters tools, capability and hooks.
    """
    settings = SummarizingConfig.model_validate(config or {})
    context = SummarizingContextManager(settings, hooks=coordinator.hooks, coordinator=coordinator)
    undo = await mount_context(
        coordinator,
        context,
        tools=(RememberTool(context.ledger),),
        announces=(SUMMARIZED, SUMMARY_FAILED, LEDGER_LOST),
    )
    coordinator.register_capability(CAPABILITY, context.ledger)

    def cleanup() -> None:
        undo()
        if coordinator.get_capability(CAPABILITY) is context.ledger:
            coordinator.register_capability(CAPABILITY, None)

    return cleanup


async def on_session_ready(coordinator: ModuleCoordinator) -> None:
    """Announce if another module's tool replaced `read_result` or `remember`."""
    await tell_replaced_tools(coordinator)
