"""Running a tool no more often than its effect allows: intent, outcome, outcome unknown."""

from __future__ import annotations

from typing import Any

from amplifier_core.effects import declaration_of
from amplifier_core.models import ToolResult
from amplifier_foundation.recording.plain import build_error, plain, plain_error
from amplifier_kit.notices import show
from amplifier_kit.tools import execute_tool
from amplifier_kit.valid_text import valid
from amplifier_runtime.turns.journal import inside, kept_model
from amplifier_runtime.turns.turn_run import TurnRun

__all__ = ["OUTCOME_UNKNOWN", "perform", "restore_result"]

OUTCOME_UNKNOWN = "tool:outcome_unknown"
_SAID = (
    "Outcome unknown: the worker was lost while `{name}` ran. The call may or may not have taken "
    "effect, and it was not repeated. Check before you call it again."
)


async def perform(run: TurnRun, key: str, name: str, tool: Any, given: dict[str, Any]) -> Any:
    """Run a tool whose outcome nobody kept, and keep it.

    An `unsafe` tool is run only after its intent is durable. When an earlier run left an intent
    and no outcome, the tool is not run: the outcome is unknown, and that is kept.
    """
    is_unsafe = not _may_repeat(run, name, tool)
    if is_unsafe:
        if run.journal.get(f"{key}:started") is not None:
            return await _unknown(run, key, name)
        await run.write(f"{key}:started", {"token": run.token, "tool": name})
        await run.stand()
    try:
        with inside(f"{key}/", is_unsafe=is_unsafe):
            result = valid(await execute_tool(tool, given))
    except Exception as error:
        await run.write(key, {"error": plain_error(error)})
        raise
    outcome = _plain_result(result)
    await run.write(key, outcome)
    # What the loop reads now is what it would read after a crash.
    return restore_result(outcome)


def _may_repeat(run: TurnRun, name: str, tool: Any) -> bool:
    """Whether a call may be run again: its tool says so, or the plan for a tool that does not."""
    if declaration_of(tool).effect != "unsafe":
        return True
    entries: list[dict[str, Any]] = run.session.config.get("tools") or []
    return any(name in (each.get("repeatable") or ()) for each in entries)


def restore_result(outcome: dict[str, Any]) -> Any:
    """Return the result that was kept, or raise the error."""
    if "error" in outcome:
        raise build_error(outcome["error"])
    result = outcome["result"]
    if outcome["is_tool_result"]:
        return ToolResult.model_validate(result)
    return result


def _plain_result(result: Any) -> dict[str, Any]:
    if isinstance(result, ToolResult):
        return {"result": kept_model(result), "is_tool_result": True}
    return {"result": plain(result), "is_tool_result": False}


async def _unknown(run: TurnRun, key: str, name: str) -> Any:
    said = _SAID.format(name=name)
    result = ToolResult(success=False, output=said, error={"message": said, "kind": "unknown"})
    outcome = {**_plain_result(result), "is_unknown": True}
    coordinator = run.session.coordinator
    line = f"The outcome of `{name}` is unknown: its worker was lost. It was not run again."
    show(coordinator, line, source="runtime")
    await coordinator.hooks.emit(OUTCOME_UNKNOWN, {"tool_name": name, "key": key})
    # Last: once it is kept, nobody comes here again to say it.
    await run.write(key, outcome)
    return restore_result(outcome)
