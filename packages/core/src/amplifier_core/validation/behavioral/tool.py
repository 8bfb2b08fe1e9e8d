"""The behaviour that every tool must have."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from amplifier_core.models import ToolResult

__all__ = ["ToolBehaviorTests"]


@pytest.mark.asyncio
@pytest.mark.module_validation
class ToolBehaviorTests:
    """Inherit this in the tests of a tool."""

    async def test_mount_succeeds(self, tool_module: Any) -> None:
        """Mounting provides a tool."""
        assert tool_module is not None

    async def test_tool_has_name(self, tool_module: Any) -> None:
        """The model can name the tool."""
        assert isinstance(tool_module.name, str)
        assert tool_module.name, "name must not be empty"

    async def test_tool_has_description(self, tool_module: Any) -> None:
        """The tool has a description for the model."""
        assert isinstance(tool_module.description, str)
        assert tool_module.description, "description must not be empty"

    async def test_tool_has_execute_method(self, tool_module: Any) -> None:
        """`execute` is a coroutine function."""
        assert inspect.iscoroutinefunction(tool_module.execute), "execute must be async"

    async def test_execute_returns_tool_result(self, tool_module: Any) -> None:
        """The answer is a ToolResult, also for an empty input."""
        assert isinstance(await tool_module.execute({}), ToolResult)

    async def test_tool_result_has_required_fields(self, tool_module: Any) -> None:
        """The answer says whether it worked and can be shown to the model."""
        result = await tool_module.execute({})
        assert isinstance(result.success, bool)
        assert isinstance(result.get_serialized_output(), str)

    async def test_invalid_input_returns_error_result(self, tool_module: Any) -> None:
        """Unknown input is answered, and a failure says what was wrong."""
        result = await tool_module.execute({"no_tool_has_this_parameter": object()})
        assert isinstance(result, ToolResult)
        assert result.success or result.error or result.output, "a failure must say what failed"
