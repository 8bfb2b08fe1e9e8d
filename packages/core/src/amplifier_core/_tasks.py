"""What the kernel needs to know about the asyncio task it runs in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar, cast

Value = TypeVar("Value")


def is_being_cancelled() -> bool:
    """Whether the current task is really being cancelled.

    A CancelledError that a callback raised by itself, or leaked from a task of its own, must not
    pass for a cancellation of the caller.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_awaitable(value: object) -> bool:
    """Whether `value` can be awaited; a fraction of the cost of `inspect.isawaitable`."""
    return hasattr(type(value), "__await__")


async def settled(value: Any) -> Any:
    """Return `value`, awaited when it can be: what a callback gives that may be async or not."""
    return await value if is_awaitable(value) else value


async def limited(seconds: float | None, work: Awaitable[Value]) -> Value:
    """Return what `work` returns; interrupt it with a TimeoutError after `seconds`.

    It runs in the caller's task. Unlike `asyncio.timeout`, this interrupts again every `seconds`:
    work that waits a second time while it is being cancelled must not wait for ever.
    """
    if seconds is None:
        return await work
    loop = asyncio.get_running_loop()
    task = cast("asyncio.Task[Any]", asyncio.current_task())
    cancelled_before = task.cancelling()
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts, timer
        interrupts += 1
        task.cancel()
        timer = loop.call_later(seconds, interrupt)

    timer = loop.call_later(seconds, interrupt)
    try:
        return await work
    except asyncio.CancelledError as error:
        # Somebody else may have cancelled the task as well; then it is their cancellation.
        if interrupts and task.cancelling() - interrupts <= cancelled_before:
            raise TimeoutError(f"no result after {seconds:g} s") from error
        raise
    finally:
        timer.cancel()
        for _ in range(interrupts):
            task.uncancel()


class _Done(Coroutine[None, None, None]):
    """A coroutine of work that is done already.

    Not made by `async def`, because Python warns of such a coroutine that nobody awaits. It has no
    state, so one object serves every caller.
    """

    def __await__(self) -> Generator[None, None, None]:
        return cast("Generator[None, None, None]", iter(()))

    def send(self, value: None) -> None:
        """Return at the first step."""
        raise StopIteration

    def throw(self, error: Any, value: Any = None, traceback: Any = None) -> None:
        """Raise the error: there is nothing to handle it."""
        raise error

    def close(self) -> None:
        """Do nothing: there is nothing to interrupt."""


DONE = _Done()
