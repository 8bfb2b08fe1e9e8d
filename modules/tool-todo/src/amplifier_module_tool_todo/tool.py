"""The tool `todo`."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from amplifier_core.effects import Effect
from amplifier_core.models import ToolResult
from amplifier_kit.tools import problems_in
from amplifier_module_tool_todo.items import INPUT_SCHEMA, TodoList, rendered
from amplifier_module_tool_todo.todos import Todos


class TodoTool:
    """Takes the whole list, or shows it."""

    name = "todo"
    description = (
        "Keep a list of what is to be done. Give the whole list each time; leave `todos` out to "
        "read it. One item at most is in_progress; mark an item done as soon as it is."
    )
    input_schema = INPUT_SCHEMA
    effect: Effect = "idempotent"
    deadline_seconds = 10.0
    # It says nothing but what the model said itself.
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
