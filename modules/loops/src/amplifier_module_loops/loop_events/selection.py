"""Selects the tool of a call: hooks that act as schedulers may deny or change the choice."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from amplifier_core import events
from amplifier_kit.turn_events import TOOL_DENIED
from amplifier_module_loops.announcer import Announcer
from amplifier_module_loops.tool_runs import ToolRun, find_tool

TOOL_SELECTING = "tool:selecting"
TOOL_SELECTED = "tool:selected"
SELECTION_EVENTS = [TOOL_SELECTING, TOOL_SELECTED]

_NOT_USABLE = "`tool` has to be the name of a tool and `tool_input` a mapping"


class Selection(NamedTuple):
    """The tool and the input of a call; `is_scheduled` if a scheduler chose or changed them."""

    tool_name: str
    tool_input: dict[str, Any]
    is_scheduled: bool


async def select_tool(run: ToolRun, tools: dict[str, Any], announcer: Announcer) -> str | None:
    """Ask the schedulers about a call and set their choice in it.

    Returns the result of a call that is refused, else None. `tool:pre` follows for the tool
    selected here, so that a scheduler cannot bypass a guard.
    """
    is_scheduled = False
    if announcer.hears(TOOL_SELECTING):
        asked = await announcer.ask(TOOL_SELECTING, _question(run, tools))
        if asked.action == "deny":
            reason = asked.reason or "no reason given"
            await announcer.tell(TOOL_DENIED, {**run.facts, "reason": reason, "ran": False})
            return f"Denied by hook: {reason}"
        chosen = _selection(run, asked.data or {})
        if chosen is None:
            return await _refuse(run, announcer, "TypeError", _NOT_USABLE)
        run.name = chosen.tool_name
        run.tool_input = chosen.tool_input
        is_scheduled = chosen.is_scheduled
    selected = {
        "tool": run.name,
        # The published loop sends `tool`, a published scheduler reads `tool_name`.
        "tool_name": run.name,
        "source": "scheduler" if is_scheduled else "llm",
        "original_tool": run.called_name if is_scheduled else None,
        "tool_call_id": run.call_id,
    }
    await announcer.tell(TOOL_SELECTED, selected)
    # A tool that the model invented is left to the turn, which answers it in every loop.
    if is_scheduled and find_tool(tools, run.name) is None:
        known = ", ".join(tools) or "none"
        problem = f"there is no tool `{run.name}`; available: {known}"
        return await _refuse(run, announcer, "LookupError", problem)
    return None


def _question(run: ToolRun, tools: dict[str, Any]) -> dict[str, Any]:
    return {
        "tool_name": run.name,
        "tool_input": run.tool_input,
        "available_tools": list(tools),
        "tool_call_id": run.call_id,
    }


def _selection(run: ToolRun, answer: dict[str, Any]) -> Selection | None:
    """Return the selection of an answer: `tool`, else `tool_name`; None if it is malformed."""
    named: Any = answer.get("tool")
    tool_name: Any = named
    if tool_name is None:
        tool_name = answer.get("tool_name", run.name)
    given: Any = answer.get("tool_input", run.tool_input)
    if not isinstance(tool_name, str) or not isinstance(given, dict):
        return None
    tool_input = cast("dict[str, Any]", given)
    is_edited = tool_name != run.name or tool_input != run.tool_input
    return Selection(tool_name, tool_input, is_scheduled=named is not None or is_edited)


async def _refuse(run: ToolRun, announcer: Announcer, kind: str, problem: str) -> str:
    """Report that a scheduler's answer cannot be used; returns the result for the model."""
    reason = f"A scheduler's answer to the call of `{run.called_name}` cannot be used: {problem}."
    failure = {"type": kind, "msg": reason}
    await announcer.warn(events.TOOL_ERROR, {**run.facts, "error": failure}, reason)
    return f"Error selecting a tool: {reason}"
