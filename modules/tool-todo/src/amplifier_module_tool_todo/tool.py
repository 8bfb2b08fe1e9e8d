"""The tool `todo`, and the reminder of open items."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from amplifier_core.effects import Effect
from amplifier_core.models import HookResult, ToolResult
from amplifier_kit.tools import problems_in
from amplifier_module_tool_todo.todos import INPUT_SCHEMA, TodoList, Todos, rendered


class TodoTool:
    """Replaces the whole list, or shows it."""

    name = "todo"
    description = (
        "Keep a list of what is to be done. Give the whole list each time; leave `todos` out to "
        "read it. One item at most is in_progress; mark an item done as soon as it is."
    )
    input_schema = INPUT_SCHEMA
    effect: Effect = "idempotent"
    deadline_seconds = 10.0
    # It returns only text that the model wrote itself.
    output_trusted = True

    def __init__(self, todos: Todos) -> None:
        self._todos = todos
        self.calls = 0

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Replace the list if one is given, and show it."""
        try:
            given = TodoList.model_validate(input)
        except ValidationError as error:
            message = f"The list was not changed. {problems_in(error)}."
            return ToolResult(success=False, error={"message": message})
        if given.todos is not None:
            await self._todos.replace(given.todos)
        self.calls += 1
        return ToolResult(output=rendered(await self._todos.read()))


class Reminder:
    """Counts the steps since the list was last used; a step is a request to the model."""

    def __init__(self, todos: Todos, tool: TodoTool, every_steps: int) -> None:
        self._todos = todos
        self._tool = tool
        self._every_steps = every_steps
        self._steps = 0
        self._calls = 0

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        """Inject the list into the next request, if enough steps have passed."""
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
