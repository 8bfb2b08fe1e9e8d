"""Shared by tools and their callers: invalid inputs, failures, execution."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, cast

from pydantic import ValidationError

from amplifier_core.models import ToolResult

__all__ = ["execute_tool", "tool_failure"]

# The only key of a broken input, so that no tool mistakes it for one of its own arguments.
_BROKEN = "__invalid_arguments__"
_MOST_KEPT = 2_000
_MOST_PROBLEMS = 5
_MOST_CHARS = 200


def problems_in(error: ValidationError) -> str:
    """Return what is wrong with an input, in words the model can act on; never the input itself."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'input'}: {each['msg']}"[:_MOST_CHARS]
        for each in found[:_MOST_PROBLEMS]
    )


def broken_input(text: str, problem: str) -> dict[str, Any]:
    """Return a marker as the input of a call with unreadable arguments, for the loop to answer.

    It is plain data, so that it means the same after it was stored. Only the end of a long text
    is kept, because the fault is there.
    """
    return {_BROKEN: {"problem": problem, "text": text[-_MOST_KEPT:]}}


def broken_problem(tool_input: Any) -> str | None:
    """Return why the arguments of a call could not be read; None when they could."""
    if not isinstance(tool_input, dict):
        return None
    broken = cast("dict[str, Any]", tool_input).get(_BROKEN)
    if broken is None:
        return None
    known: dict[str, Any] = cast("dict[str, Any]", broken) if isinstance(broken, dict) else {}
    return str(known.get("problem") or "could not be read")


def tool_failure(message: str, **facts: str) -> ToolResult:
    """Return a result that says why a call failed, with facts a program can read."""
    return ToolResult(success=False, error={"message": message, **facts})


async def execute_tool(tool: Any, given: dict[str, Any]) -> Any:
    """Return the result of `tool.execute(given)`.

    A plain function would stop every session of the process while it runs, so it runs in a thread.
    Context variables are the same there. A thread cannot be interrupted: when the call is
    cancelled or its time is up, the function continues and its result is dropped.
    """
    execute = tool.execute
    # Decided by the signature: calling it to see what it returns would run it on the event loop.
    if inspect.iscoroutinefunction(inspect.unwrap(execute)):
        return await execute(given)
    result = await asyncio.to_thread(execute, given)
    # A plain function may return the coroutine of an async one.
    if inspect.isawaitable(result):
        return await result
    return result
