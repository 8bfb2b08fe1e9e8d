"""tool-task: gives work to child agents that end in time and stay under their parent's guards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_module_tool_task.capabilities import AgentCapabilities
from amplifier_module_tool_task.child import EVENTS, NAME
from amplifier_module_tool_task.config import TaskConfig
from amplifier_module_tool_task.remote import RUNNER, RemoteTasks, TaskRunner
from amplifier_module_tool_task.tasks import Tasks
from amplifier_module_tool_task.tools import tools_for

__amplifier_module_type__ = "tool"

# Behind those that may deny the request: news that nobody reads would be lost.
_LATE = 1_000


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], Awaitable[None]] | None:
    """Offer `agents.*` and mount the tools. Cleanup: ends the tasks.

    A session as deep as agents may be gets no tools, and `agents.spawn` refuses there.
    """
    settings, hooks = TaskConfig.model_validate(config or {}), coordinator.hooks
    runner: TaskRunner | None = coordinator.get_capability(RUNNER)
    tasks = (
        Tasks(coordinator, settings)
        if runner is None
        else RemoteTasks(coordinator, settings, runner)
    )
    coordinator.register_contributor("observability.events", NAME, EVENTS.copy)
    AgentCapabilities(tasks).offer(coordinator)
    if tasks.depth >= tasks.config.max_depth:
        return None
    undo: list[Callable[[], None]] = []
    if isinstance(tasks, Tasks):
        coordinator.register_contributor("session.cost", NAME, tasks.cost)
        # Before the cleanups: children share the guards of this session, which are among them.
        undo += [hooks.register(events.SESSION_END, tasks.end_with_session, name=NAME)]
    if tasks.config.notify:
        undo += [hooks.register(events.PROVIDER_REQUEST, tasks.tell_news, _LATE, NAME)]
    for tool in tools_for(tasks):
        await coordinator.mount("tools", tool)

    async def cleanup() -> None:
        if isinstance(tasks, Tasks):
            await tasks.close()
        while undo:
            undo.pop()()

    return cleanup
