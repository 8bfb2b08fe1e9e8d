"""Work that has to reach its end although the task that awaits it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["finish"]

Value = TypeVar("Value")


async def finish(work: Coroutine[Any, Any, Value]) -> Value:
    """Return the result of `work`; a cancellation is raised after it has ended.

    One `asyncio.shield` is not enough: a cancel scope of anyio, which web frameworks use when a
    client disconnects, cancels its task again at every await until the scope is left.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result
