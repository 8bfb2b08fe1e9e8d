"""The validator of tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amplifier_core.validation.base import (
    ModuleValidator,
    ValidationCheck,
    check_coroutine_method,
    check_name,
    failed,
    passed,
)

__all__ = ["ToolValidator"]


class ToolValidator(ModuleValidator):
    """Validates a module that mounts tools."""

    module_type = "tool"
    protocol_name = "Tool"
    thing = "tool"

    def inspect(self, instance: Any) -> Iterator[ValidationCheck]:
        """Look at one tool."""
        yield check_name("tool_name", instance)
        description = getattr(instance, "description", None)
        if isinstance(description, str) and description:
            yield passed("tool_description", "description says what the tool does")
        else:
            yield failed("tool_description", "description is empty or no string", "warning")
        schema = getattr(instance, "input_schema", None)
        if isinstance(schema, dict):
            yield passed("tool_input_schema", "input_schema is a dict")
        else:
            message = f"input_schema must be a dict, not {type(schema).__name__}"
            yield failed("tool_input_schema", message, "warning")
        yield check_coroutine_method("tool_execute", instance, "execute", 1)
