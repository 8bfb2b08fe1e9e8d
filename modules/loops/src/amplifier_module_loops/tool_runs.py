"""One run of a tool: objections before it, its place in the queue, its deadline and heartbeat."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import Callable
from time import monotonic
from typing import Any, cast

from amplifier_core.message_models import ToolCall
from amplifier_kit.valid_text import valid

logger = logging.getLogger(__name__)

# A tool that needs longer to look is asked about unlooked at.
_LONGEST_SECONDS = 5.0
_MOST_PROBLEMS = 5
_TYPES: dict[str, tuple[type, ...]] = {
    "array": (list, tuple),
    "boolean": (bool,),
    "object": (dict,),
    "string": (str,),
}


async def objection(tool: Any, tool_input: Any, *, may_look: bool = True) -> str | None:
    """Return why a call would fail, as the model reads it; None when nothing is known against it.

    A tool may have a `preflight`: it takes the input, changes nothing, and returns a text, or None.
    Whatever it says, the tool itself decides again when it runs.
    """
    problem = schema_problems(getattr(tool, "input_schema", None), tool_input)
    if problem is not None:
        return problem
    look = getattr(tool, "preflight", None) if may_look else None
    if not callable(look):
        return None
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            said: Any = look(tool_input)
            if inspect.isawaitable(said):
                said = await said
    except Exception:
        logger.exception("preflight failed tool=%s", getattr(tool, "name", ""))
        return None
    # A double may have any attribute one asks for; only a text is an objection.
    if isinstance(said, str) and said:
        return said
    return None


def schema_problems(schema: Any, tool_input: Any) -> str | None:
    """Return what an input certainly lacks by the schema of its tool; None when it may do.

    Only what no tool could repair is a problem: required keys that are missing, unknown keys where
    the schema allows none, and texts, lists, objects and truth values of another kind.
    """
    if not isinstance(schema, dict) or not isinstance(tool_input, dict):
        return None
    known = cast("dict[str, Any]", schema)
    given = cast("dict[str, Any]", tool_input)
    declared: Any = known.get("properties")
    if isinstance(declared, dict):
        properties = cast("dict[str, Any]", declared)
    else:
        properties = {}
    required: Any = known.get("required")
    if isinstance(required, list):
        names = cast("list[Any]", required)
    else:
        names = []
    problems = [f"`{name}` is missing" for name in names if name not in given]
    if known.get("additionalProperties") is False:
        problems += [f"`{name}` is not known" for name in given if name not in properties]
    for name, value in given.items():
        kind = _kind_of(properties.get(name))
        if kind is not None and not isinstance(value, _TYPES[kind]):
            problems.append(f"`{name}` must be of type {kind}")
    return "; ".join(problems[:_MOST_PROBLEMS]) or None


def _kind_of(declared: Any) -> str | None:
    """Return the one kind that a property may have; None when it may have several."""
    if not isinstance(declared, dict):
        return None
    kind: Any = cast("dict[str, Any]", declared).get("type")
    if isinstance(kind, str) and kind in _TYPES:
        return kind
    return None


class ToolRun:
    """One call on its way to a result; times are of the monotonic clock.

    `name` is the tool that runs. `called_name` is the one that the model called, and its result
    carries that name: vendors match results with calls by id or by name.
    """

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
        self.tool: Any = None
        self.started_at = 0.0
        self.seconds = math.inf
        self.is_running = False
        self.is_abandoned = False
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
        self.tool = tool
        self.started_at = monotonic()
        self.is_running = True
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
    """Waits for calls: for the next tick, or until all have ended."""

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
            self._rings_at = when
            self._timer = self._loop.call_later(when - now, self._ring)

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


class CallSlots:
    """A fixed number of slots; calls that find none free wait, and are served in call order."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    async def take(self, run: ToolRun) -> None:
        """Wait for a slot; does not give up control while one is free."""
        await self._free.acquire()
        run.release_slot = self._free.release
