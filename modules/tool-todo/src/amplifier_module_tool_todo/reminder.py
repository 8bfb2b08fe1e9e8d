"""The reminder: shows the model its list when it has not looked at it for some steps."""

from __future__ import annotations

from typing import Any

from amplifier_core.models import HookResult
from amplifier_module_tool_todo.items import rendered
from amplifier_module_tool_todo.todos import Todos
from amplifier_module_tool_todo.tool import TodoTool


class Reminder:
    """Counts the steps since the list was last used; a step is a request to the model."""

    def __init__(self, todos: Todos, tool: TodoTool, every_steps: int) -> None:
        self._todos = todos
        self._tool = tool
        self._every_steps = every_steps
        self._steps = 0
        self._calls = 0

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        """Add the list to the request that is about to be made, if it is time."""
        if self._calls != self._tool.calls:
            self._steps = 0
            self._calls = self._tool.calls
        self._steps += 1
        if self._steps < self._every_steps:
            return HookResult()
        self._steps = 0
        items = await self._todos.read()
        if all(item.state == "done" for item in items):
            return HookResult()
        return HookResult(
            action="inject_context",
            context_injection=f"A reminder of the to-do list. {rendered(items)}",
            context_injection_role="user",
            ephemeral=True,
        )
