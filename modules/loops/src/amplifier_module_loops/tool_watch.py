"""Looking after running tools: one timer for the heartbeats and deadlines of all of them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from time import monotonic
from typing import Any

from amplifier_core.message_models import ToolCall
from amplifier_kit.valid_text import valid


class ToolRun:
    """One call on its way to a result; times are of the monotonic clock.

    `name` is the tool that runs. `called_name` is the one that the model called, and its result
    carries that name: vendors match results with calls by id or by name.
    """

    __slots__ = (
        "call_id",
        "called_name",
        "group",
        "is_abandoned",
        "is_running",
        "name",
        "problem",
        "release_slot",
        "result",
        "seconds",
        "started_at",
        "task",
        "tool",
        "tool_input",
        "watch",
    )

    def __init__(self, call: ToolCall, group: int) -> None:
        self.call_id = call.id
        self.called_name = call.name
        self.name = call.name
        self.tool_input = call.arguments
        self.group = group
        self.result: dict[str, Any] | None = None
        self.task: asyncio.Task[None] | None = None
        self.watch: ToolWatch | None = None
        self.release_slot: Callable[[], None] | None = None
        self.is_running = self.is_abandoned = False
        # Why it would fail, as far as that was seen before it was announced.
        self.problem: Exception | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What the hooks are told of the call."""
        return {
            "tool_name": self.name,
            "tool_input": self.tool_input,
            "tool_call_id": self.call_id,
            "parallel_group_id": f"group-{self.group}",
        }

    @property
    def deadline_at(self) -> float:
        """When the time of the tool is up."""
        return self.started_at + self.seconds

    def tool_starts(self, tool: Any) -> None:
        """Note that the tool runs from now on."""
        self.tool, self.started_at, self.is_running = tool, monotonic(), True
        if self.watch is not None:
            self.watch.take(self)

    def give_back_slot(self) -> None:
        """Let the next call that waits run; a second time has no effect."""
        release = self.release_slot
        self.release_slot = None
        if release is not None:
            release()

    def answer(self, content: Any) -> None:
        """Take `content` for the result."""
        self.result = result_message(self.call_id, self.called_name, valid(content))


def result_message(call_id: str, name: str, content: Any) -> dict[str, Any]:
    """Return the message that answers a call."""
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


class ToolWatch:
    """Waits for calls that did not end at once: for the next tick, or until all have ended."""

    __slots__ = (
        "_interval",
        "_loop",
        "_open",
        "_rings_at",
        "_runs",
        "_seconds_for",
        "_timer",
        "_waiter",
    )

    def __init__(
        self, runs: list[ToolRun], interval: float, seconds_for: Callable[[ToolRun], float]
    ) -> None:
        """`interval` is the longest time between two ticks; `seconds_for` tells a tool's time."""
        self._runs = runs
        self._interval = interval
        self._seconds_for = seconds_for
        self._loop = asyncio.get_running_loop()
        self._open = len(runs)
        self._rings_at = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        for run in runs:
            run.watch = self
            if run.task is not None:
                run.task.add_done_callback(self._end)
            if run.is_running:
                self.take(run)

    async def tick(self) -> bool:
        """Wait for the timer, or until all calls have ended; False when they have."""
        if self._open:
            # Wound anew each time: it may have rung while nobody was waiting.
            for run in self.running():
                self._wind(run)
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._open > 0

    def take(self, run: ToolRun) -> None:
        """Look after a tool that runs from now on."""
        run.seconds = self._seconds_for(run)
        self._wind(run)

    def running(self) -> list[ToolRun]:
        """Return the calls whose tools run and are in time."""
        return [run for run in self._runs if run.is_running]

    def expire(self) -> list[ToolRun]:
        """Return the calls whose time is up, and wait for them no longer."""
        now = monotonic()
        expired = [run for run in self.running() if run.deadline_at <= now]
        for run in expired:
            run.is_running = False
            run.is_abandoned = True
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
        return monotonic() - run.started_at

    def _wind(self, run: ToolRun) -> None:
        """Set the timer so that it rings in time for `run`."""
        now = monotonic()
        when = min(now + self._interval, run.deadline_at)
        if when < self._rings_at:
            self.close()
            self._rings_at, self._timer = when, self._loop.call_later(when - now, self._ring)

    def _end(self, _: asyncio.Task[None]) -> None:
        self._open -= 1
        if not self._open:
            self._wake()

    def _ring(self) -> None:
        self._rings_at = math.inf
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
