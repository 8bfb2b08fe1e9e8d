"""What a model reads of a tool's result or error, after the hooks have seen it."""

from __future__ import annotations

import json
from typing import Any, cast

from amplifier_core.models import HookResult, ToolResult

__all__ = ["content_of", "error_left_by_hooks", "result_left_by_hooks"]


def result_left_by_hooks(result: Any, after: HookResult) -> Any:
    """Return the result, or what a hook put in its place under either of its names."""
    for name in ("result", "tool_result"):
        left = (after.data or {}).get(name, result)
        if left is not result:
            return left
    return result


def error_left_by_hooks(error: BaseException, told: dict[str, Any]) -> str:
    """Return what the model reads of an error: no more than the hooks leave of it."""
    left: Any = told.get("error")
    name, said = type(error).__name__, left.get("msg") if isinstance(left, dict) else left  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - from hooks
    return f"{name}: {said}" if said else name


def content_of(result: Any) -> Any:
    """Return what the model reads of a result: rich content if it has some, else its text."""
    if isinstance(result, ToolResult):
        if result.content:
            return [block.model_dump() for block in result.content]
        try:
            return result.get_serialized_output()
        except (TypeError, ValueError):
            return _text(result.output)
    if isinstance(result, dict) and "success" in result:
        # A hook saw the result as plain data and changed it there.
        fields = cast("dict[str, Any]", result)
        output = fields.get("output")
        return _text(fields.get("error") if output is None else output)
    return _text(cast("Any", result))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError):
        return str(value)
