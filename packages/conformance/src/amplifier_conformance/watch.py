"""Observing a call: how it ends, when it ends, and which tasks it leaves running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from amplifier_conformance.rules import require
from amplifier_core.errors import describe_error

__all__ = [
    "LARGE",
    "Outcome",
    "cancel_in_mid_call",
    "end_at_deadline",
    "leave_nothing",
    "loop_lag",
    "outcome_at_large",
    "outcome_of",
]

LARGE = 50_000_000

_BEAT_SECONDS = 0.01
_CANCELLATIONS = 100
# Shorter durations are too noisy to tell how they grow with the size.
_SHORTEST_SECONDS = 0.05


@dataclass
class Outcome:
    """The outcome of a call: a value, an error, or neither if it has not ended."""

    value: Any = None
    error: BaseException | None = None
    ended: bool = True
    seconds: float = 0.0
    size: int | None = None

    def __str__(self) -> str:
        if not self.ended:
            if self.size is None:
                return "it ran on"
            return self._too_slow()
        if self.error is None:
            return f"it returned {type(self.value).__name__}"
        # The message of an error may quote the whole input, which can be 50 MB.
        return f"it raised {describe_error(self.error)[:500]}"

    def _too_slow(self) -> str:
        return f"it took {self.seconds:.1f} s for {self.size:,} characters, and more for more"


async def outcome_of(call: Coroutine[Any, Any, Any], seconds: float) -> Outcome:
    """Wait for `call` for at most `seconds`; one that takes longer is cancelled and abandoned."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    task = _start(call)
    await asyncio.wait({task}, timeout=seconds)
    outcome = _outcome(task)
    outcome.seconds = loop.time() - started
    await _shake_off(task)
    return outcome


async def outcome_at_large(
    call: Callable[[int], Coroutine[Any, Any, Any]], seconds: float
) -> Outcome:
    """Wait for `call(LARGE)` for at most `seconds`, after trying smaller sizes.

    Code that computes cannot be interrupted, so the large size is not tried if the smaller ones
    show that it would take longer than `seconds`.
    """
    size = LARGE // 10**4
    before = _SHORTEST_SECONDS
    while True:
        outcome = await outcome_of(call(size), seconds)
        # At least linear: each size is ten times the one before.
        growth = max(10.0, outcome.seconds / before)
        if size == LARGE or not outcome.ended:
            return outcome
        if outcome.seconds * growth > seconds:
            return Outcome(ended=False, seconds=outcome.seconds, size=size)
        size = size * 10
        before = max(outcome.seconds, _SHORTEST_SECONDS)


async def cancel_in_mid_call(
    kind: str, call: Coroutine[Any, Any, Any], *, after: float, within: float
) -> bool:
    """Cancel `call` after `after` seconds and check `<kind>.cancel` and `<kind>.leftover`.

    Returns False if the call ended before that, so that there was nothing to cancel.
    """
    __tracebackhide__ = True
    before = asyncio.all_tasks()
    task = _start(call)
    await asyncio.wait({task}, timeout=after)
    if task.done():
        _outcome(task)
        return False
    task.cancel()
    await asyncio.wait({task}, timeout=within)
    outcome = _outcome(task)
    await _shake_off(task)
    kept = isinstance(outcome.error, asyncio.CancelledError)
    require(f"{kind}.cancel", kept, str(outcome))
    await leave_nothing(kind, before, within)
    return True


async def end_at_deadline(
    kind: str, call: Coroutine[Any, Any, Any], *, deadline: float, within: float
) -> bool:
    """Give `call` a deadline and check `<kind>.slow_peer`; return False if it ended earlier."""
    __tracebackhide__ = True

    async def bounded() -> Any:
        async with asyncio.timeout(deadline):
            return await call

    outcome = await outcome_of(bounded(), deadline + within)
    if outcome.seconds < deadline:
        return False
    require(f"{kind}.slow_peer", isinstance(outcome.error, TimeoutError), str(outcome))
    return True


async def leave_nothing(kind: str, before: set[asyncio.Task[Any]], within: float) -> None:
    """Check `<kind>.leftover`: tasks that are not in `before` must end within `within` seconds."""
    __tracebackhide__ = True
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=within)
    names = ", ".join(sorted(str(task.get_coro()) for task in left))
    require(f"{kind}.leftover", not left, f"still running: {names}")


@asynccontextmanager
async def loop_lag() -> AsyncGenerator[list[float]]:
    """Yield a list that is filled with the delays of the event loop, in seconds."""
    loop = asyncio.get_running_loop()
    lags: list[float] = []

    async def beat() -> None:
        while True:
            due = loop.time() + _BEAT_SECONDS
            await asyncio.sleep(_BEAT_SECONDS)
            lags.append(loop.time() - due)

    heart = _start(beat())
    # The first beat has to start before the call that is measured.
    await asyncio.sleep(0)
    try:
        yield lags
        # A call that blocked until its end shows only in the beat after it.
        await asyncio.sleep(2 * _BEAT_SECONDS)
    finally:
        heart.cancel()
        await asyncio.wait({heart})


def _start(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.ensure_future(call)


async def _shake_off(task: asyncio.Task[Any]) -> None:
    """Cancel a task until it ends: closing the event loop would wait for it."""
    task.add_done_callback(_outcome)
    # Many times, because a module may swallow cancellations; but not forever.
    for _ in range(_CANCELLATIONS):
        if task.done():
            return
        task.cancel()
        await asyncio.sleep(0)


def _outcome(task: asyncio.Future[Any]) -> Outcome:
    """Return a task's outcome; asyncio warns about an exception that was never read."""
    if not task.done():
        return Outcome(ended=False)
    if task.cancelled():
        return Outcome(error=asyncio.CancelledError())
    error = task.exception()
    if error is not None:
        return Outcome(error=error)
    return Outcome(value=task.result())
