"""Looking after running tools: one timer for the heartbeats and deadlines of all of them."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from amplifier_core.message_models import ToolCall


class ToolRun:
    """One call on its way to a result; times are the event loop's."""

    __slots__ = (
        "call",
        "deadline_at",
        "facts",
        "is_abandoned",
        "is_running",
        "result",
        "seconds",
        "started_at",
        "task",
        "watch",
    )

    def __init__(self, call: ToolCall, group: str) -> None:
        self.call = call
        self.facts: dict[str, Any] = {
            "tool_name": call.name,
            "tool_input": call.arguments,
            "tool_call_id": call.id,
            "parallel_group_id": group,
        }
        self.result: dict[str, Any] | None = None
        self.task: asyncio.Task[None] | None = None
        self.watch: ToolWatch | None = None
        self.is_running = self.is_abandoned = False

    def tool_starts(self, now: float, seconds: float | None, until: float) -> None:
        """Note that the tool runs from now on: for so many seconds, and not longer than `until`."""
        self.started_at = now
        self.deadline_at = until if seconds is None else min(now + seconds, until)
        self.seconds = None if self.deadline_at == math.inf else self.deadline_at - now
        self.is_running = True
        if self.watch is not None:
            self.watch.wind(self)


class ToolWatch:
    """Waits for calls that did not end at once: for the next tick, or until all have ended."""

    __slots__ = ("_interval", "_loop", "_open", "_runs", "_timer", "_waiter")

    def __init__(self, runs: list[ToolRun], interval: float) -> None:
        """`interval` is the longest time between two ticks, in seconds."""
        self._runs = runs
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        self._open = len(runs)
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        for run in runs:
            run.watch = self
            if run.task is not None:
                run.task.add_done_callback(self._end)

    async def tick(self) -> bool:
        """Wait for the timer, or until all calls have ended; False when they have."""
        if self._open:
            # Wound anew each time: it may have rung while nobody was waiting.
            for run in self.running():
                self.wind(run)
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._open > 0

    def wind(self, run: ToolRun) -> None:
        """Set the timer so that it rings in time for `run`."""
        when = min(self._loop.time() + self._interval, run.deadline_at)
        if when == math.inf or (self._timer is not None and self._timer.when() <= when):
            return
        self.close()
        self._timer = self._loop.call_at(when, self._ring)

    def running(self) -> list[ToolRun]:
        """Return the calls whose tools run and are in time."""
        return [run for run in self._runs if run.is_running]

    def expire(self) -> list[ToolRun]:
        """Return the calls whose time is up, and wait for them no longer."""
        now = self._loop.time()
        expired = [run for run in self.running() if run.deadline_at <= now]
        for run in expired:
            run.is_running, run.is_abandoned = False, True
            self._open -= 1
            if run.task is not None:
                run.task.remove_done_callback(self._end)
        return expired

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def elapsed(self, run: ToolRun) -> float:
        """Return for how many seconds the tool of `run` has been running."""
        return self._loop.time() - run.started_at

    def _end(self, _: asyncio.Task[None]) -> None:
        self._open -= 1
        if not self._open:
            self._wake()

    def _ring(self) -> None:
        self._timer = None
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
