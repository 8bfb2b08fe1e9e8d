"""What the kernel needs to know about the asyncio task it runs in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
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


async def abandon_after(seconds: float, work: Awaitable[Value]) -> Value:
    """Return what `work` returns, or raise TimeoutError after `seconds`.

    Unlike `asyncio.timeout`, this returns on time even when `work` ignores its cancellation: it is
    then left to itself, and whatever becomes of it is not looked at again.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=max(0.0, seconds))
    finally:
        if not task.done():
            task.add_done_callback(_ignore_outcome)
            task.cancel()
    if not task.done():
        raise TimeoutError(f"no result after {seconds:g} s")
    return task.result()


def _ignore_outcome(task: asyncio.Future[Value]) -> None:
    if not task.cancelled():
        task.exception()


class StepLimit:
    """Interrupts the current task when one step of it, a `with` block each, takes too long.

    One timer serves all steps, so that steps that take no time cost next to none. The block that
    was interrupted raises TimeoutError; the steps stay in the task they were started in.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._is_running, self._fired = False, 0
        self._timer = self._loop.call_later(seconds, self._look)

    def __enter__(self) -> None:
        self._began = self._loop.time()
        self._is_running, self._fired = True, 0

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._is_running = False
        if self._fired:
            others = min(self._task.uncancel() for _ in range(self._fired))
            if isinstance(error, asyncio.CancelledError) and not others:
                raise TimeoutError(f"no result after {self._seconds:g} s") from error

    def end(self) -> None:
        """Stop looking."""
        self._timer.cancel()

    def _look(self) -> None:
        left = self._began + self._seconds - self._loop.time()
        if self._is_running and left <= 0:
            self._fired += 1
            self._task.cancel()
        self._timer = self._loop.call_later(left if left > 0 else self._seconds, self._look)


class _Done:
    """An awaitable of work that is done already."""

    def __await__(self) -> Generator[None, None, None]:
        return cast("Generator[None, None, None]", iter(()))


DONE = _Done()
