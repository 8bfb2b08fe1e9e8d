"""One run of a tool: checks before it, its slot, its deadline and heartbeat."""

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

# A preflight that takes longer is given up, and the user is asked without it.
_LONGEST_SECONDS = 5.0
_MOST_PROBLEMS = 5
_TYPES: dict[str, tuple[type, ...]] = {
    "array": (list, tuple),
    "boolean": (bool,),
    "object": (dict,),
    "string": (str,),
}


def find_tool(tools: dict[str, Any], name: str) -> Any:
    """Return a tool by the name it is mounted under, else by its own name, which models use."""
    tool = tools.get(name)
    if tool is not None:
        return tool
    return next((each for each in tools.values() if each.name == name), None)


async def objection(tool: Any, tool_input: Any, *, may_look: bool = True) -> str | None:
    """Return why a call is bound to fail, as a text for the model; None if no reason is known.

    A tool may have a `preflight`, which takes the input, changes nothing, and returns a text or
    None. It does not replace the checks that the tool makes when it runs.
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
    # A mock has any attribute that is asked for; only a text is an objection.
    if isinstance(said, str) and said:
        return said
    return None


def schema_problems(schema: Any, tool_input: Any) -> str | None:
    """Return what is certainly wrong with an input by its tool's schema; None if nothing is.

    Only what no tool could accept is a problem: required keys that are missing, unknown keys where
    the schema allows none, and other values where a text, list, object or boolean is declared.
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
    """Return the one type that a property may have; None if it may have several."""
    if not isinstance(declared, dict):
        return None
    kind: Any = cast("dict[str, Any]", declared).get("type")
    if isinstance(kind, str) and kind in _TYPES:
        return kind
    return None


class ToolRun:
    """One call and its result; times are of the monotonic clock.

    `name` is the tool that runs. `called_name` is the one that the model called, which its result
    has to carry: vendors match results with calls by id or by name.
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
        # Why it is bound to fail, if that was found before it was announced.
        self.problem: Exception | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The data of events about the call."""
        return {
            "tool_name": self.name,
            "tool_input": self.tool_input,
            "tool_call_id": self.call_id,
            "parallel_group_id": f"group-{self.group}",
        }

    @property
    def deadline_at(self) -> float:
        """When the time limit of the tool is reached."""
        return self.started_at + self.seconds

    def tool_starts(self, tool: Any) -> None:
        """Mark the tool as running, and start its deadline."""
        self.tool = tool
        self.started_at = monotonic()
        self.is_running = True
        if self.watch is not None:
            self.watch.take(self)

    def give_back_slot(self) -> None:
        """Release the slot for the next waiting call; idempotent."""
        release = self.release_slot
        self.release_slot = None
        if release is not None:
            release()

    def answer(self, content: Any) -> None:
        """Set `content` as the result."""
        self.result = result_message(self.call_id, self.called_name, valid(content))


def result_message(call_id: str, name: str, content: Any) -> dict[str, Any]:
    """Return the message that answers a call."""
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


class ToolWatch:
    """Waits for calls with one timer: until the next tick, or until all have ended."""

    def __init__(
        self, runs: list[ToolRun], interval: float, seconds_for: Callable[[ToolRun], float]
    ) -> None:
        """`interval` is the longest time between two ticks; `seconds_for` returns a time limit."""
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
        """Wait for the timer, or until all calls have ended; returns False then."""
        if self._open:
            # Set again each time: the timer may have fired while a slow listener was awaited.
            for run in self.running():
                self._wind(run)
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._open > 0

    def take(self, run: ToolRun) -> None:
        """Set the deadline of a tool that has just started."""
        run.seconds = self._seconds_for(run)
        self._wind(run)

    def running(self) -> list[ToolRun]:
        """Return the calls whose tools are running and not expired."""
        return [run for run in self._runs if run.is_running]

    def expire(self) -> list[ToolRun]:
        """Return the calls whose time is up, and stop waiting for them."""
        now = monotonic()
        expired = [run for run in self.running() if run.deadline_at <= now]
        for run in expired:
            run.is_running = False
            run.is_abandoned = True
            self._open -= 1
            if run.task is not None:
                # It was taken off the count here, and must not be again when it ends.
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
        """Set the timer so that it fires no later than `run` needs it."""
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
    """A fixed number of slots; waiting calls get them in call order."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    async def take(self, run: ToolRun) -> None:
        """Take a slot, waiting for a free one; does not yield to the event loop if one is free."""
        await self._free.acquire()
        run.release_slot = self._free.release
