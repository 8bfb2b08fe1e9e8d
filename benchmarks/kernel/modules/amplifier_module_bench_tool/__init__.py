"""bench-tool: adds two integers."""

from __future__ import annotations

from typing import Any

from amplifier_core import ModuleCoordinator, ToolResult

__amplifier_module_type__ = "tool"


class AddTool:
    """The tool every turn of the benchmark calls."""

    name = "add"
    description = "Add two integers."
    input_schema: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(success=True, output=str(input["a"] + input["b"]))


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount `add`. No configuration."""
    await coordinator.mount("tools", AddTool(), name="add")
