"""Executing a tool: in the event loop if it is async, in a thread if it is not."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

__all__ = ["execute_tool"]


async def execute_tool(tool: Any, given: dict[str, Any]) -> Any:
    """Return the result of `tool.execute(given)`.

    A plain function would stop every session of the process while it runs, so it runs in a thread.
    Context variables are the same there. A thread cannot be interrupted: when the call is
    cancelled or its time is up, the function continues and its result is dropped.
    """
    execute = tool.execute
    if inspect.iscoroutinefunction(inspect.unwrap(execute)):
        return await execute(given)
    result = await asyncio.to_thread(execute, given)
    # A plain function may hand on the coroutine of an async one.
    if inspect.isawaitable(result):
        return await result
    return result
