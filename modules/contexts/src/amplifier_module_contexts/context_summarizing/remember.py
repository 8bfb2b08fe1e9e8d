"""The tool `remember`: lets the model add to the ledger."""

from __future__ import annotations

import json
from typing import Any, cast

from amplifier_core.effects import Effect
from amplifier_core.models import ToolResult
from amplifier_module_contexts.context_summarizing.ledger import KINDS, Ledger

TOOL_NAME = "remember"


class RememberTool:
    """Adds entries to the ledger, and removes finished to-dos."""

    name = TOOL_NAME
    description = (
        "Put down what you must not forget, however long the conversation gets: the goal, a rule, "
        "a decision, a to-do. `done` strikes out an open to-do; give its text word for word."
    )
    input_schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": list(KINDS)},
            "text": {"type": "string"},
        },
        "required": ["kind", "text"],
    }
    effect: Effect = "idempotent"
    deadline_seconds = 10.0
    output_trusted = True

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Add one entry."""
        kind = input.get("kind")
        text = input.get("text")
        try:
            self._ledger.add(cast("Any", kind), text if isinstance(text, str) else "")
        except ValueError as error:
            return ToolResult(success=False, error={"message": str(error)})
        return ToolResult(output=f"Kept as {kind}.")


def remembered(message: dict[str, Any]) -> list[tuple[Any, str]]:
    """Return kind and text of every call of `remember` in a stored message."""
    # Loops store calls as `tool_calls`, as content blocks, or as both.
    content: Any = message.get("content")
    blocks: list[Any] = cast("list[Any]", content) if isinstance(content, list) else []
    calls = [*(message.get("tool_calls") or ()), *blocks]
    given = [_arguments(cast("dict[str, Any]", each)) for each in calls if isinstance(each, dict)]
    return [(each.get("kind"), str(each.get("text", ""))) for each in given if each]


def _arguments(call: dict[str, Any]) -> dict[str, Any]:
    function: Any = call.get("function")
    if isinstance(function, dict):
        fields = cast("dict[str, Any]", function)
    else:
        fields = call
    if TOOL_NAME not in (fields.get("name"), fields.get("tool")):
        return {}
    given: Any = fields.get("arguments", fields.get("input"))
    try:
        given = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return {}
    if isinstance(given, dict):
        return cast("dict[str, Any]", given)
    return {}
