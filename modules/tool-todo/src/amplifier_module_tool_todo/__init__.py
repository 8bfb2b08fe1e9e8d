"""tool-todo: a to-do list in the session's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_module_tool_todo.config import TodoConfig
from amplifier_module_tool_todo.todos import CHANGED, SOURCE, UNREADABLE, Todos
from amplifier_module_tool_todo.tool import Reminder, TodoTool

__amplifier_module_type__ = "tool"
__all__ = ["mount"]

_EVENTS = [CHANGED, UNREADABLE]


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], None]:
    """Mount `todo` and the capability `todo.list`. Cleanup: unregisters the reminder."""
    settings = TodoConfig.model_validate(config or {})
    todos = Todos(coordinator)
    tool = TodoTool(todos)
    listening: list[Callable[[], None]] = []
    if settings.remind_every_steps is not None:
        reminder = Reminder(todos, tool, settings.remind_every_steps)
        listening.append(coordinator.hooks.register(events.PROVIDER_REQUEST, reminder, name=SOURCE))

    async def listed() -> list[dict[str, Any]]:
        return [item.model_dump() for item in await todos.read()]

    coordinator.register_capability("todo.list", listed)
    coordinator.register_contributor("observability.events", SOURCE, _EVENTS.copy)
    await coordinator.mount("tools", tool)

    def cleanup() -> None:
        for stop_listening in listening:
            stop_listening()

    return cleanup
