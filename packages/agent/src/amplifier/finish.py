"""Work and contexts that have to reach their end although the caller's task is cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

__all__ = ["finish", "in_own_task"]

Value = TypeVar("Value")


async def finish(work: Coroutine[Any, Any, Value] | asyncio.Task[Value]) -> Value:
    """Return the result of `work`; a cancellation is raised after it has ended.

    One `asyncio.shield` is not enough: a cancel scope of anyio, which web frameworks use when a
    client disconnects, cancels its task again at every await until the scope is left.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            # Such a scope also keeps the loop from waiting; the threads of `work` need the lock of
            # the interpreter, which the loop would hand over only every 5 ms.
            time.sleep(0)  # noqa: ASYNC251
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


@asynccontextmanager
async def in_own_task(context: AbstractAsyncContextManager[Value]) -> AsyncGenerator[Value]:
    """Enter and leave `context` in one task of its own; leaving it is never cancelled.

    If the caller is cancelled before the context is entered, the entering is cancelled once and can
    close what it has opened. The context does not see what is raised inside it.
    """
    entered: asyncio.Future[Value] = asyncio.get_running_loop().create_future()
    leaving = asyncio.Event()

    async def enter_and_leave() -> None:
        async with context as value:
            entered.set_result(value)
            await leaving.wait()

    task = asyncio.create_task(enter_and_leave())
    try:
        await asyncio.wait({task, entered}, return_when=asyncio.FIRST_COMPLETED)
        if entered.done():
            yield entered.result()
    finally:
        if not entered.done():
            task.cancel()
        leaving.set()
        # Raises what entering raised.
        await finish(task)
