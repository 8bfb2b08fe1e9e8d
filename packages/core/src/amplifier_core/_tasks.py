"""Helpers for the current asyncio task: cancellation, and time limits without a new task."""

from __future__ import annotations

import asyncio
import inspect
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar, cast

Value = TypeVar("Value")


def is_being_cancelled() -> bool:
    """Whether the current task is really being cancelled.

    A CancelledError that a callback raised itself, or that leaked from a task of its own, must not
    be mistaken for a cancellation of the caller.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def maybe_await(value: Any) -> Any:
    """Return `value`, awaited if it is awaitable: the result of a sync or async callback."""
    return await value if inspect.isawaitable(value) else value


@types.coroutine
def limited(seconds: float | None, work: Coroutine[Any, Any, Value]) -> Generator[Any, Any, Value]:
    """Return the result of `work`; interrupt it with a TimeoutError after `seconds`.

    It runs in the caller's task, so that context variables that it sets stay. Nearly all mounts and
    handlers end in the first step, which needs no timer: `asyncio.timeout` doubles an emit's cost.
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
    """Interrupts the current task when its `with` block takes longer than `seconds`.

    Unlike `asyncio.timeout` it interrupts again every `seconds`: work that swallows a cancellation
    and waits again must not wait forever.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._cancelled_before = self._task.cancelling()
        self._interrupts = 0
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        if self._seconds is not None:
            self._timer = self._task.get_loop().call_later(self._seconds, self._interrupt)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for _ in range(self._interrupts):
            self._task.uncancel()
        # If someone else has cancelled the task as well, the CancelledError is theirs.
        is_ours = self._interrupts > 0 and self._task.cancelling() <= self._cancelled_before
        if is_ours and isinstance(error, asyncio.CancelledError):
            raise TimeoutError(f"no result after {self._seconds:g} s") from error

    def _interrupt(self) -> None:
        self._interrupts += 1
        self._task.cancel()
        self.__enter__()


class _Done(Coroutine[None, None, None]):
    """A finished coroutine; unlike one of `async def` it causes no warning if nobody awaits it."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()

    def send(self, value: None) -> None:
        raise StopIteration

    def throw(self, error: Any, value: Any = None, traceback: Any = None) -> None:
        raise error

    def close(self) -> None: ...


DONE = _Done()
