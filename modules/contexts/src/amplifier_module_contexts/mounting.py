"""Mount a context: its hooks, its events and its tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_module_contexts.compaction import COUNT_FAILED
from amplifier_module_contexts.context import BLOB_DROPPED, SPILLED, FittingContext
from amplifier_module_contexts.spill import ReadResultTool

TOOL_TAKEN = "context:tool_taken"
ANNOUNCED = (
    events.CONTEXT_PRE_COMPACT,
    events.CONTEXT_POST_COMPACT,
    events.CONTEXT_COMPACTION,
    SPILLED,
    BLOB_DROPPED,
    COUNT_FAILED,
    TOOL_TAKEN,
)


async def mount_context(
    coordinator: ModuleCoordinator,
    context: FittingContext,
    *,
    tools: Iterable[Any] = (),
    announces: Iterable[str] = (),
) -> Callable[[], None]:
    """Mount the context, its `read_result` and `tools`; return the cleanup for hooks and tools.

    A tool whose name is taken is not mounted: the other tool stays, and that is announced.
    """
    await coordinator.mount("context", context)
    announced = [*ANNOUNCED, *announces]
    coordinator.register_contributor("observability.events", context.name, announced.copy)
    listening = [
        coordinator.hooks.register(event, context.calibration, name=context.name)
        for event in (events.LLM_RESPONSE, events.PROVIDER_RESPONSE)
    ]
    if context.spill is not None:
        tools = (ReadResultTool(context.spill.blobs, context.spill.limit), *tools)
    # The mounted objects themselves, not their wrappers, so that `is` compares below.
    mounted = coordinator.mount_points["tools"]
    for tool in tools:
        if tool.name in mounted:
            await _tell_taken(context, tool.name)
        else:
            context.tools.append(tool)
            await coordinator.mount("tools", tool, name=tool.name)

    def cleanup() -> None:
        for stop_listening in listening:
            stop_listening()
        for tool in context.tools:
            if mounted.get(tool.name) is tool:
                _ = coordinator.unmount("tools", tool.name)

    return cleanup


async def tell_replaced_tools(coordinator: ModuleCoordinator) -> None:
    """Announce which tools of the mounted context were replaced by another module's."""
    context: Any = coordinator.mount_points["context"]
    for tool in context.tools if isinstance(context, FittingContext) else ():
        if coordinator.mount_points["tools"].get(tool.name) is not tool:
            await _tell_taken(context, tool.name)


async def _tell_taken(context: FittingContext, tool_name: str) -> None:
    line = f"Another module's tool has the name `{tool_name}`; the one of {context.name} is off."
    await context.announcer.tell(TOOL_TAKEN, {"tool_name": tool_name}, line)
