"""The validator of tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from amplifier_core.interfaces import input_schema_of
from amplifier_core.validation.base import (
    ModuleValidator,
    ValidationCheck,
    check_coroutine_method,
    check_name,
    failed,
    passed,
)

__all__ = ["ToolValidator"]


def _check_schema(tool: Any) -> ValidationCheck:
    schema: Any = input_schema_of(tool)
    if not isinstance(schema, dict):
        message = f"input_schema must be a dict, not {type(cast('object', schema)).__name__}"
        return failed("tool_input_schema", message, "warning")
    if getattr(tool, "input_schema", None) is not None:
        return passed("tool_input_schema", "input_schema is a dict")
    # Our loops accept either; published ones read only the attribute.
    message = "no input_schema: published loops read it, and do not call get_schema()"
    return failed("tool_input_schema", message, "warning")


class ToolValidator(ModuleValidator):
    """Validates a module that mounts tools."""

    module_type = "tool"
    protocol_name = "Tool"
    thing = "tool"

    def inspect(self, instance: Any) -> Iterator[ValidationCheck]:
        """Check one tool."""
        yield check_name("tool_name", instance)
        description = getattr(instance, "description", None)
        if isinstance(description, str) and description:
            yield passed("tool_description", "description says what the tool does")
        else:
            yield failed("tool_description", "description is empty or no string", "warning")
        yield _check_schema(instance)
        yield check_coroutine_method("tool_execute", instance, "execute", 1)
