"""What the kernel needs to know about the asyncio task it runs in."""

from __future__ import annotations

import asyncio
import types
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


@types.coroutine
def limited(seconds: float, work: Coroutine[Any, Any, Value]) -> Generator[Any, Any, Value]:
    """Return what `work` returns; interrupt it with a TimeoutError after `seconds`.

    It stays in the task of the caller. Work that never waits costs no timer.
    """
    try:
        awaited = work.send(None)
        with _Limit(seconds):
            while True:
                try:
                    value = yield awaited
                except BaseException as error:  # noqa: BLE001 - raised where the work waits
                    awaited = work.throw(error)
                else:
                    awaited = work.send(value)
    except StopIteration as done:
        return done.value


class _Limit:
    """Interrupts the current task when its `with` block takes too long, and again if it goes on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._fired = 0

    def __enter__(self) -> None:
        self._timer = self._task.get_loop().call_later(self._seconds, self._interrupt)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._timer.cancel()
        if self._fired:
            others = min(self._task.uncancel() for _ in range(self._fired))
            if isinstance(error, asyncio.CancelledError) and not others:
                raise TimeoutError(f"no result after {self._seconds:g} s") from error

    def _interrupt(self) -> None:
        self._fired += 1
        self._task.cancel()
        self.__enter__()


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
