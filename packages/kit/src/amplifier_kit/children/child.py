"""Runs a child session from its prompt to an outcome, within a deadline it cannot ignore."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from amplifier_core import events
from amplifier_core.cancellation import CancellationToken
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.errors import describe_error
from amplifier_core.history import INTERRUPTED
from amplifier_core.models import HookResult
from amplifier_core.session import AmplifierSession
from amplifier_kit.children.config import ChildrenConfig
from amplifier_kit.notices import show
from amplifier_kit.texts import shorten, texts_in

logger = logging.getLogger(__name__)

NAME = "children"
STARTED = "task:started"
PROGRESS = "task:progress"
FINISHED = "task:finished"
FAILED = "task:failed"
ABANDONED = "task:abandoned"
REFUSED = "task:refused"
EVENTS = [STARTED, PROGRESS, FINISHED, FAILED, ABANDONED, REFUSED]
COMPLETED = "completed"
# Reasons that skip the graceful stop: nobody waits for the current step.
_AT_ONCE = ("interrupted", "parent_ended")
LONGEST_RESULT = 50_000
_CLEANUP_SECONDS = 10.0
_SAID_LAST = 3
_LONGEST_SAID = 6_000
_RESULTS_SHOWN = 20
_LONGEST_SHOWN = 500
# After every other guard of the child: a call that they deny is not progress.
_LAST = 10_000


class Order(NamedTuple):
    """The work of a child; `facts` are part of every event about it.

    `history` is what its memory has before the prompt.
    """

    facts: dict[str, Any]
    prompt: str
    history: list[dict[str, Any]]
    seconds: float


class Outcome(NamedTuple):
    """How a child ended: `completed`, or the reason why it is incomplete."""

    stop_reason: str
    text: str
    seconds: float
    cost_usd: Decimal | None


class Child:
    """One child session and its watchdog; the constructor starts both."""

    def __init__(
        self,
        parent: ModuleCoordinator,
        session: AmplifierSession,
        order: Order,
        config: ChildrenConfig,
    ) -> None:
        self.handle: str = order.facts["handle"]
        self.order = order
        self.outcome: Outcome | None = None
        self.is_read = False
        # The data of the last `orchestrator:complete` of its loop.
        self.ending: dict[str, Any] = {}
        self._parent = parent
        self._config = config
        self._clock = asyncio.get_running_loop().time
        self._started_at = self._clock()
        self._until = self._started_at + order.seconds
        self._steps = 0
        self._last_tool = ""
        self._turn_end: str | None = None
        self._is_cut_off = False
        self._stop_wanted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        listen = session.coordinator.hooks.register
        for event in (events.TOOL_PRE, events.PROVIDER_REQUEST):
            # Registered as a guard, so that the child's own children inherit it.
            listen(event, self._hold, priority=_LAST, name=NAME, on_error="deny")
        listen(events.ORCHESTRATOR_COMPLETE, self._note_turn_end, name=NAME)
        for event in EVENTS:
            listen(event, parent.hooks.emit, name=NAME)
        # Passed, not stored: a session is large, and this object lives as long as its parent.
        self.watch = asyncio.create_task(self._watch(session))
        self._work = asyncio.create_task(self._run(session))

    @property
    def line(self) -> str:
        """Its status in one line."""
        state = self.outcome.stop_reason if self.outcome else "running"
        who = f"{self.handle} {self.order.facts['agent']}".strip()
        work = f"{self._steps} model calls, last tool: {self._last_tool or 'none'}"
        return f"{who}: {state}, {self._seconds():.1f} s, {work}"

    @property
    def was_stopped(self) -> bool:
        """Whether it was stopped by a caller or by its deadline."""
        return self._stop_wanted.done()

    async def wait(self) -> None:
        """Wait for its end and mark it as read; if the waiting task is cancelled, stop it."""
        try:
            await asyncio.wait({self.watch})
        except asyncio.CancelledError:
            await self.stop("interrupted")
            raise
        self.is_read = True

    async def stop(self, reason: str) -> None:
        """Stop it; return when it has ended or was abandoned."""
        if not self._stop_wanted.done():
            self._stop_wanted.set_result(reason)
        await asyncio.wait({self.watch})

    async def _hold(self, event: str, data: dict[str, Any]) -> HookResult:
        """Deny every call of a child that ignores its stop; else note the progress."""
        if self._is_cut_off:
            return HookResult(action="deny", reason="This agent was stopped.")
        if event == events.PROVIDER_REQUEST:
            self._steps += 1
        else:
            self._last_tool = str(data.get("tool_name"))
        return HookResult()

    async def _note_turn_end(self, event: str, data: dict[str, Any]) -> None:
        reason = data.get("stop_reason") or data.get("status")
        self._turn_end = COMPLETED if reason == "success" else reason
        self.ending = dict(data)

    async def _watch(self, session: AmplifierSession) -> None:
        """Supervise the child until it has ended, or was stopped."""
        await self._announce(STARTED)
        while await self._is_in_time():
            await self._announce(PROGRESS, deadline_seconds=self.order.seconds)
        if not self._work.done() and not await self._end(session.coordinator.cancellation):
            await self._announce(ABANDONED)
            line = f"{self.handle} does not stop when asked to; it is abandoned."
            show(self._parent, line, source=NAME)
        reason, _, _, cost = await self._conclude(session)
        facts = {"stop_reason": reason, "cost_usd": None if cost is None else str(cost)}
        await self._announce(FAILED if reason == "error" else FINISHED, **facts)
        if reason != COMPLETED:
            show(self._parent, f"A task did not come to its end. {self.line}.", source=NAME)

    async def _is_in_time(self) -> bool:
        """Wait for one heartbeat; False if the work is done or has to be stopped."""
        rest = min(self._config.heartbeat_seconds, max(0.0, self._until - self._clock()))
        waited = {self._work, self._stop_wanted}
        done, _ = await asyncio.wait(waited, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
        if not done and self._clock() >= self._until:
            self._stop_wanted.set_result("deadline")
        return not self._work.done() and not self._stop_wanted.done()

    async def _end(self, token: CancellationToken) -> bool:
        """Stop the child by increasingly forceful means; False if none of them works."""

        def cut_off() -> None:
            self._is_cut_off = True
            token.request_immediate()

        ways: list[Callable[[], object]] = [token.request_graceful, cut_off, self._work.cancel]
        for way in ways[1:] if self._stop_wanted.result() in _AT_ONCE else ways:
            way()
            await asyncio.wait({self._work}, timeout=self._config.grace_seconds)
            if self._work.done():
                return True
        return False

    async def _run(self, session: AmplifierSession) -> None:
        answer = error = None
        try:
            await session.initialize()
            await self._remember(session)
            answer = await session.execute(self.order.prompt)
        except Exception as raised:
            logger.exception("child failed session=%s", session.session_id)
            error = raised
        finally:
            await self._conclude(session, answer, error)
            await session.cleanup()

    async def _remember(self, session: AmplifierSession) -> None:
        """Fill the memory with the history, unless a persistent memory has loaded it already."""
        context = session.coordinator.get("context")
        if context is None:
            return  # a turn without a context is refused, with the reason
        if session.is_resumed and await context.get_messages():
            return
        for message in self.order.history:
            await context.add_message(message)

    async def _conclude(
        self, session: AmplifierSession, answer: str | None = None, error: Exception | None = None
    ) -> Outcome:
        """Return the outcome; the first one that is found is final."""
        if self.outcome is not None:
            return self.outcome
        token = session.coordinator.cancellation
        if error:
            reason = "error"
        else:
            reason = self._stop_reason(answer is None or token.is_cancelled)
        cost = None
        text = answer or ""
        # These call the child's modules, which may hang or raise: the outcome must not depend on
        # them.
        try:
            async with asyncio.timeout(self._config.grace_seconds):
                if reason != COMPLETED:
                    cause = f" ({describe_error(error)})" if error else ""
                    text = f"[{self.handle} is incomplete: {reason}{cause}]\n"
                    context = session.coordinator.get("context")
                    # A child that did not start has none.
                    if context is not None:
                        text += partial_work(await context.get_messages())
                cost = await _cost_of(session.coordinator)
        except Exception:
            logger.exception("remains of a child not read session=%s", session.session_id)
        # A cleanup that hangs must not hold the outcome back until the child's deadline.
        self._until = min(self._until, self._clock() + _CLEANUP_SECONDS)
        text = shorten(text, LONGEST_RESULT)
        # The watchdog and the work both conclude; the other one may have done so meanwhile.
        self.outcome = self.outcome or Outcome(reason, text, self._seconds(), cost)
        return self.outcome

    def _stop_reason(self, is_cancelled: bool) -> str:
        if self._turn_end == COMPLETED or not (self._turn_end or is_cancelled):
            return COMPLETED
        wanted = self._stop_wanted
        if wanted.done():
            return wanted.result()
        return self._turn_end or "cancelled"

    async def _announce(self, event: str, **facts: Any) -> None:
        work = {"steps": self._steps, "last_tool": self._last_tool, "seconds": self._seconds()}
        await self._parent.hooks.emit(event, {**self.order.facts, **work, **facts})

    def _seconds(self) -> float:
        if self.outcome:
            return self.outcome.seconds
        return round(self._clock() - self._started_at, 3)


async def _cost_of(coordinator: ModuleCoordinator) -> Decimal | None:
    """Return the cost of a session with its own children; None if it is unknown."""
    told = await coordinator.collect_contributions("session.cost")
    known = [Decimal(each["cost_usd"]) for each in told if each.get("cost_usd") is not None]
    if known:
        return sum(known, Decimal(0))
    return None


def partial_work(messages: list[dict[str, Any]]) -> str:
    """Return the last texts and tool results of an unfinished session."""
    texts = [(each, "\n".join(texts_in(each.get("content"))).strip()) for each in messages]
    said = [text for each, text in texts if each.get("role") == "assistant" and text]
    results = [
        f"- {each.get('name') or 'tool'}: {shorten(text, _LONGEST_SHOWN)}"
        for each, text in texts
        if each.get("role") == "tool" and text != INTERRUPTED
    ]
    words = [shorten(text, _LONGEST_SAID) for text in said[-_SAID_LAST:]] or ["Nothing."]
    count = f"Finished tool calls: {len(results)}, the last ones of them:"
    return "\n".join(["What it said last:", *words, count, *results[-_RESULTS_SHOWN:]])
