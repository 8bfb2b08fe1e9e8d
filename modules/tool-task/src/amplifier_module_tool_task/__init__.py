"""tool-task: gives work to child agents that end in time and stay under their parent's guards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.children.registry import open_children
from amplifier_module_tool_task.agents import Agents
from amplifier_module_tool_task.config import TaskConfig
from amplifier_module_tool_task.tools import AgentCapabilities, tools_for

__amplifier_module_type__ = "tool"

NAME = "tool-task"
# After guards that may deny the request: results injected into a denied request would be lost.
_LATE = 1_000


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], Awaitable[None]] | None:
    """Register `agents.*` and mount the tools. Cleanup: ends the tasks.

    A session at the maximum depth gets no tools, and `agents.spawn` refuses there.
    """
    settings = TaskConfig.model_validate(config or {})
    agents = Agents(coordinator)
    tasks, close = open_children(coordinator, settings)
    # Before the check of the depth: other modules can list the agents even where none can start.
    AgentCapabilities(tasks, agents).offer(coordinator)
    if tasks.depth >= tasks.config.max_depth:
        return close
    undo: list[Callable[[], None]] = []
    if tasks.config.notify:
        hooks = coordinator.hooks
        undo += [hooks.register(events.PROVIDER_REQUEST, tasks.tell_news, _LATE, NAME)]
    for tool in tools_for(tasks, agents):
        await coordinator.mount("tools", tool)

    async def cleanup() -> None:
        await close()
        while undo:
            undo.pop()()

    return cleanup
