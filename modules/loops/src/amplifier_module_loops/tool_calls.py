"""The tool calls of one answer: which are accepted, how they run, what the model reads."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, TypeAlias, cast

from amplifier_core import events
from amplifier_core.correlation import tool_call
from amplifier_core.history import interrupted_result
from amplifier_core.message_models import ChatResponse, ToolCall
from amplifier_core.models import HookResult, ToolResult
from amplifier_kit.tools import broken_problem, execute_tool
from amplifier_kit.turn_events import CALLS_DROPPED, TOOL_ABANDONED, TOOL_DENIED, TOOL_HEARTBEAT
from amplifier_kit.valid_text import valid
from amplifier_module_loops.announcer import Announcer
from amplifier_module_loops.limits import DEADLINE, TurnSettings
from amplifier_module_loops.tool_runs import (
    CallSlots,
    ToolRun,
    ToolWatch,
    find_tool,
    objection,
    result_message,
)

__all__ = ["content_of", "error_left_by_hooks", "result_left_by_hooks"]

logger = logging.getLogger(__name__)


def first_calls(
    response: ChatResponse, calls: list[ToolCall], most: int
) -> tuple[ChatResponse, list[ToolCall]]:
    """Return the answer and its calls without those after the first `most`.

    The others are removed from the answer itself. Every stored call needs a result, and results for
    thousands of calls would fill the window, so that the turn could not continue.
    """
    kept = calls[:most]
    kept_ids = {call.id for call in kept}
    content = [
        block for block in response.content if block.type != "tool_call" or block.id in kept_ids
    ]
    changes = {"content": content, "tool_calls": kept}
    return response.model_copy(update=changes), kept


async def report_dropped(announcer: Announcer, total: int, most: int) -> None:
    """Report the calls that were not accepted: to the model, the hooks and the user."""
    dropped = total - most
    announcer.injections.add(
        f"Your last answer had {total:,} tool calls. The first {most:,} were accepted; the other "
        f"{dropped:,} were not run and have no results. Make at most {most:,} calls at a time."
    )
    facts = {"calls": total, "accepted": most, "dropped": dropped}
    line = f"The model made {total:,} tool calls in one answer; {dropped:,} of them were not run."
    await announcer.warn(CALLS_DROPPED, facts, line)


def result_left_by_hooks(result: Any, after: HookResult) -> Any:
    """Return the result, or the replacement that a hook set under either of its names."""
    for name in ("result", "tool_result"):
        left = (after.data or {}).get(name, result)
        if left is not result:
            return left
    return result


def error_left_by_hooks(error: BaseException, told: dict[str, Any]) -> str:
    """Return the error text for the model, as edited by hooks."""
    name = type(error).__name__
    left: Any = told.get("error")
    if isinstance(left, dict):
        left = cast("dict[str, Any]", left).get("msg")
    if not left:
        return name
    return f"{name}: {left}"


def content_of(result: Any) -> Any:
    """Return the content of a result for the model: rich content if it has some, else text."""
    if isinstance(result, ToolResult):
        if result.content:
            return [block.model_dump() for block in result.content]
        try:
            return result.get_serialized_output()
        except (TypeError, ValueError):
            return _text(result.output)
    if isinstance(result, dict) and "success" in result:
        # Hooks see results as plain data; this one was changed by a hook.
        fields = cast("dict[str, Any]", result)
        output = fields.get("output")
        return _text(fields.get("error") if output is None else output)
    return _text(cast("Any", result))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError):
        return str(value)


SelectTool: TypeAlias = Callable[[ToolRun, dict[str, Any], Announcer], Awaitable[str | None]]
"""Chooses the tool of a call before `tool:pre`; takes the call, the mounted tools, the announcer.

It may change `name` and `tool_input` of the call. A text it returns is the call's result, and no
tool runs.
"""

_CANCELLED = "Not run: the session was cancelled before the turn of this call came."

# Hooks that take longer are assumed to have asked the user.
_LONGEST_UNASKED = 1.0
# How long cancelled tools have to stop before they are abandoned.
_GRACE_SECONDS = 1.0

# Cancellations that outlast their turn. asyncio keeps only weak references to tasks, so that
# one without another reference may be collected while it runs.
_background_cancellations: set[asyncio.Task[None]] = set()


class ToolCalls:
    """Runs tool calls and stores exactly one result for each, however the turn ends."""

    def __init__(
        self,
        tools: dict[str, Any],
        context: Any,
        announcer: Announcer,
        token: Any,
        settings: TurnSettings,
        until: float,
        select_tool: SelectTool | None = None,
    ) -> None:
        """No tool may run past `until` on the monotonic clock."""
        self._tools = tools
        self._context = context
        self._announcer = announcer
        self._token = token
        self._settings = settings
        self._select_tool = select_tool
        self._slots: CallSlots | None = None
        self.until = until
        self._groups = 0
        self._asking = 0
        self._asked_at = 0.0
        self._may_look_late = True

    async def run(self, calls: list[ToolCall]) -> None:
        """Run `calls` and add their results to the context, in call order.

        At most `parallel_calls` tools run at the same time; the other calls wait. A tool that
        exceeds its time gets a result immediately, whether it stops or not. If the turn is
        cancelled, finished results are kept and the rest is marked as interrupted before the
        cancellation is raised.
        """
        self._groups += 1
        runs = [ToolRun(call, self._groups) for call in calls]
        if self._select_tool is None:
            work = self._run_one
        else:
            work = self._select_and_run
        self._slots = None
        if len(runs) > self._settings.parallel_calls:
            self._slots = CallSlots(self._settings.parallel_calls)
        try:
            await self._look_at(runs)
            for run in runs:
                # Tasks start in the order they are created, which is the order of the calls.
                run.task = asyncio.create_task(work(run))
            await self._look_after(runs)
        finally:
            for run in runs:
                # Every call needs a result, or providers refuse the history.
                result = run.result or interrupted_result(run.call_id, run.called_name)
                await self._context.add_message(result)

    async def _look_at(self, runs: list[ToolRun]) -> None:
        """Find the calls that are bound to fail, so that the user is not asked about them.

        Only the first tool with a `preflight` runs it: later calls may depend on what that call
        changes. If hooks select the tools, only a call that is alone in its step is checked so.
        """
        # Without hooks nobody is asked, and the tool itself finds what is wrong.
        is_heard = self._announcer.hears(events.TOOL_PRE)
        may_look = True
        for run in runs:
            problem = broken_problem(run.tool_input)
            if problem is not None:
                text = f"the arguments {problem}. Make the call again, with one JSON object."
                run.problem = ValueError(text)
            elif is_heard and self._select_tool is None:
                run.problem = await self._objection(run, may_look=may_look)
                may_look = may_look and not hasattr(find_tool(self._tools, run.name), "preflight")
        self._may_look_late = len(runs) == 1

    async def refuse(self, calls: list[ToolCall], reason: str) -> None:
        """Answer `calls` without running them."""
        for call in calls:
            await self._context.add_message(result_message(call.id, call.name, reason))

    async def _look_after(self, runs: list[ToolRun]) -> None:
        """Wait until every run has a result, its own or that of its timeout."""
        announcer = self._announcer
        is_heard = announcer.hears(TOOL_HEARTBEAT)
        if is_heard:
            interval = self._settings.heartbeat_seconds
        else:
            # The timer is for deadlines only.
            interval = math.inf
        watch = ToolWatch(runs, interval, self._seconds_for)
        try:
            while await watch.tick():
                for run in watch.expire():
                    await self._time_out(run)
                for run in watch.running():
                    await announcer.tell(TOOL_HEARTBEAT, _heartbeat(run, watch))
        except BaseException:
            await self._part_from([run for run in runs if run.result is None])
            raise
        finally:
            watch.close()
        ended = [run.task for run in runs if run.task is not None and not run.is_abandoned]
        # All exceptions are retrieved, or asyncio would report the others as never retrieved.
        failed = [task for task in ended if task.cancelled() or task.exception() is not None]
        if failed:
            failed[0].result()

    async def _select_and_run(self, run: ToolRun) -> None:
        """Select the tool of a call, then run the call like any other."""
        if run.problem is None:
            select_tool = cast("SelectTool", self._select_tool)
            refusal = await select_tool(run, self._tools, self._announcer)
            if refusal is not None:
                return run.answer(refusal)
            if self._announcer.hears(events.TOOL_PRE):
                run.problem = await self._objection(run, may_look=self._may_look_late)
        return await self._run_one(run)

    async def _run_one(self, run: ToolRun) -> None:
        """Run one call, as the current tool call of all code that runs for it."""
        with tool_call(run.name, run.call_id):
            await self._ask_and_execute(run)

    async def _ask_and_execute(self, run: ToolRun) -> None:
        """Ask the hooks about one call, run it, and set its result, unless it was abandoned."""
        if run.problem is not None:
            return await self._fail(run, run.problem)
        before = await self._ask(run)
        if before.action == "deny":
            return await self._deny(run, before.reason, ran=False)
        if before.data is not None:
            run.tool_input = before.data.get("tool_input", run.tool_input)
        # After the question: a user who thinks about one call must not keep others from running.
        if await self._is_refused_after_wait(run):
            return None
        try:
            result = valid(await self._execute(run))
        except (Exception, asyncio.CancelledError) as error:
            # A tool that raises CancelledError without being cancelled has failed like any other.
            if run.is_abandoned or (isinstance(error, asyncio.CancelledError) and _is_cancelled()):
                raise
            logger.exception("tool failed name=%s", run.name)
            return await self._fail(run, error)
        if not run.is_abandoned:
            await self._take_result(run, result)
        return None

    async def _take_result(self, run: ToolRun, result: Any) -> None:
        """Pass a result to the hooks, and answer the call with what they return."""
        results = {"result": result, "tool_result": result}
        after = await self._announcer.ask(events.TOOL_POST, {**run.facts, **results})
        if after.action == "deny":
            return await self._deny(run, after.reason, ran=True)
        run.answer(content_of(result_left_by_hooks(result, after)))
        return None

    async def _fail(self, run: ToolRun, error: BaseException) -> None:
        """Announce the error of a call, and answer the call with it, as edited by hooks."""
        failure = {"type": type(error).__name__, "msg": str(error)}
        told = await self._announcer.tell(events.TOOL_ERROR, {**run.facts, "error": failure})
        run.answer(f"Error executing tool: {error_left_by_hooks(error, told)}")

    async def _objection(self, run: ToolRun, *, may_look: bool) -> Exception | None:
        """Return the error that a call is bound to end with, if that is known beforehand."""
        tool = find_tool(self._tools, run.name)
        if tool is None:
            return self._unknown(run.name)
        problem = await objection(tool, run.tool_input, may_look=may_look)
        if problem is None:
            return None
        return ValueError(problem)

    async def _ask(self, run: ToolRun) -> HookResult:
        """Announce a call; the time of a question to the user does not count for the turn."""
        # Parallel calls may be asked about at the same time; their time is added once.
        if not self._asking:
            self._asked_at = monotonic()
        self._asking += 1
        try:
            return await self._announcer.ask(events.TOOL_PRE, run.facts)
        finally:
            self._asking -= 1
            if not self._asking:
                seconds = monotonic() - self._asked_at
                self.until += seconds if seconds > _LONGEST_UNASKED else 0.0

    async def _deny(self, run: ToolRun, reason: str | None, *, ran: bool) -> None:
        """Answer a call that hooks denied, before or after it ran, and announce it."""
        await self._announcer.tell(TOOL_DENIED, {**run.facts, "reason": reason, "ran": ran})
        run.answer(f"Denied by hook: {reason}")

    async def _is_refused_after_wait(self, run: ToolRun) -> bool:
        """Wait for a free slot; returns True if it is too late to run this call by then."""
        if self._slots is None:
            return False
        await self._slots.take(run)
        if self._token is not None and self._token.is_cancelled:
            # A graceful stop lets running calls finish, and starts no more.
            refusal = _CANCELLED
        elif self.until <= monotonic():
            refusal = DEADLINE.refusal
        else:
            return False
        run.give_back_slot()
        run.answer(refusal)
        failure = {"type": "NotRun", "msg": refusal}
        await self._announcer.tell(events.TOOL_ERROR, {**run.facts, "error": failure})
        return True

    async def _execute(self, run: ToolRun) -> Any:
        call_id = run.call_id
        name = run.name
        token = self._token
        try:
            tool = find_tool(self._tools, name)
            if tool is None:
                raise self._unknown(name)
            run.tool_starts(tool)
            if token is not None:
                token.register_tool_start(call_id, name)
            return await execute_tool(tool, run.tool_input)
        finally:
            run.is_running = False
            run.give_back_slot()
            if token is not None:
                token.register_tool_complete(call_id)

    def _unknown(self, name: str) -> LookupError:
        known = ", ".join(self._tools) or "none"
        return LookupError(f"there is no tool `{name}`; available: {known}")

    def _seconds_for(self, run: ToolRun) -> float:
        """Return the time limit of a tool, at most what is left of the turn."""
        return min(self._own_seconds(run), self.until - run.started_at)

    def _own_seconds(self, run: ToolRun) -> float:
        """Return the time limit of a tool: configured for it, its own, or the one for all tools."""
        settings = self._settings
        if run.name in settings.tool_timeouts:
            return settings.tool_timeouts[run.name]
        own: Any = getattr(run.tool, "deadline_seconds", None)
        # A mock has any attribute that is asked for; only a number is a deadline.
        if type(own) in (int, float) and own > 0:
            return own
        if settings.tool_timeout_seconds is None:
            return math.inf
        return settings.tool_timeout_seconds

    async def _time_out(self, run: ToolRun) -> None:
        """Answer a call whose time is up, and cancel its tool without waiting for it."""
        seconds = f"{round(run.seconds, 2):g} s"
        said = (
            f"Timed out after {seconds}. The call was stopped; it may or may not have "
            "taken effect, check before you repeat it."
        )
        run.answer(said)
        # Now and not when the tool stops: one that never does would keep other calls waiting.
        run.give_back_slot()
        parting = asyncio.create_task(self._part_from([run]))
        _background_cancellations.add(parting)
        parting.add_done_callback(_background_cancellations.discard)
        logger.warning("tool timed out name=%s after=%s", run.name, seconds)
        failure = {"type": "TimeoutError", "msg": said}
        line = f"The tool `{run.name}` was stopped: no result after {seconds}."
        await self._announcer.warn(events.TOOL_ERROR, {**run.facts, "error": failure}, line)

    async def _part_from(self, runs: list[ToolRun]) -> None:
        """Cancel what still runs; abandon and report what does not stop in time."""
        left = {run.task: run for run in runs if run.task is not None and not run.task.done()}
        if not left:
            return
        for task in left:
            task.add_done_callback(_note_outcome)
            task.cancel()
        _, stubborn = await asyncio.wait(left, timeout=_GRACE_SECONDS)
        if not stubborn:
            return
        names = [left[task].name for task in stubborn]
        logger.warning("tools ignore their cancellation count=%d names=%s", len(names), names)
        for task in stubborn:
            run = left[task]
            run.is_abandoned = True
            if self._token is not None:
                self._token.register_tool_complete(run.call_id)
            facts = {"tool_name": run.name, "tool_call_id": run.call_id}
            line = f"The tool `{run.name}` does not stop when asked to; it is left running."
            await self._announcer.warn(TOOL_ABANDONED, facts, line)


def _heartbeat(run: ToolRun, watch: ToolWatch) -> dict[str, Any]:
    return {
        "tool_name": run.name,
        "tool_call_id": run.call_id,
        "elapsed_seconds": round(watch.elapsed(run), 3),
        "deadline_seconds": None if run.seconds == math.inf else run.seconds,
    }


def _note_outcome(task: asyncio.Task[None]) -> None:
    """Log the error of a cancelled tool, which nobody awaits any more."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        logger.warning("a tool that was asked to stop failed", exc_info=error)


def _is_cancelled() -> bool:
    """Whether this task is being cancelled; a tool may also raise a CancelledError itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
