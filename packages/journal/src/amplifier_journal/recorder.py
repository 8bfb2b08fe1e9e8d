"""The recorder: wraps one session's modules and writes what happens to its log."""

from __future__ import annotations

import asyncio
import functools
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Any, NamedTuple, cast

from amplifier_core import events
from amplifier_core.effects import declaration_of
from amplifier_core.errors import describe_error
from amplifier_core.interfaces import input_schema_of
from amplifier_core.redaction import redact_secrets
from amplifier_journal.errors import RecordingFailedError
from amplifier_journal.log import Log, LogWriter, RequestWriter, is_live, news_in
from amplifier_journal.plain import digest_of, plain, plain_error, plain_model, plain_state
from amplifier_journal.proxy import innermost
from amplifier_journal.readings.spending import cost_of_result, is_unpriced
from amplifier_journal.readings.state import SessionState
from amplifier_journal.wrappers import (
    RecordedApprovals,
    RecordedContext,
    RecordedDisplay,
    RecordedLoop,
    RecordedProvider,
    RecordedTool,
    call_of,
)
from amplifier_kit.calls.prices import PriceTable, price_table
from amplifier_kit.module_ids import package_of
from amplifier_kit.notices import show
from amplifier_kit.secrets.messages import MessageScrubber
from amplifier_kit.secrets.watch import Watch
from amplifier_kit.session_folder import working_folder
from amplifier_kit.texts import text_of_prompt
from amplifier_kit.turn_events import MODE_CHANGED, OUTPUT_SCHEMA
from amplifier_kit.widenings import QUESTIONS

NAME = "recording"
FAILED = "recording:failed"
# Before all other handlers, so that events which a guard denies are recorded too. Innermost around
# the modules, so that the record has what was really sent and returned.
_FIRST = -sys.maxsize
INNERMOST = sys.maxsize

NameCall = Callable[[str, tuple[Any, ...]], str]
"""Names a call, by its kind (`model` or `tool`) and by what it asks for."""

# The events whose handlers can change what a turn does; a replay has to know who they were.
_DECIDING = (
    events.PROMPT_SUBMIT,
    events.PROVIDER_REQUEST,
    events.PROVIDER_RESPONSE,
    events.TOOL_PRE,
    events.TOOL_POST,
)


def opening_of(coordinator: Any, plan: Any, *, resumed: bool, bundle: str | None) -> dict[str, Any]:
    """Return the record that opens a session's log; `plan` defaults to the session's own."""
    plan = redact_secrets(plain(coordinator.config if plan is None else plan))
    return {
        "plan": plan,
        "config_digest": digest_of(plan),
        "bundle": bundle,
        "working_dir": str(working_folder(coordinator)),
        "kernel": _version("amplifier-core"),
        "modules": plain(coordinator.session.status.modules),
        "resumed": resumed,
        "session_id": coordinator.session_id,
        "parent_id": coordinator.parent_id,
        "approvals": coordinator.approval_system is not None,
        "display": coordinator.display_system is not None,
    }


def inventory_of(coordinator: Any) -> dict[str, Any]:
    """Return the declarations of the mounted providers and tools, for mocks in a replay."""
    points = coordinator.mount_points
    return {
        "providers": [
            _provider(name, each, price_table(coordinator))
            for name, each in points["providers"].items()
        ],
        "tools": [_tool(name, each) for name, each in points["tools"].items()],
        "hooks": {event: coordinator.hooks.list_handlers(event)[event] for event in _DECIDING},
    }


def _provider(name: str, provider: Any, prices: PriceTable) -> dict[str, Any]:
    own_name = str(getattr(provider, "name", name))
    settings: Any = getattr(provider, "config", None)
    own: Any = getattr(provider, "priority", None)
    if own is None and isinstance(settings, Mapping):
        own = cast("Mapping[str, Any]", settings).get("priority")
    return {
        "name": name,
        "own_name": own_name,
        "module": package_of(innermost(provider)),
        "prices": prices.declared_by(own_name),
        "info": plain_model(provider.get_info()),
        "priority": plain(own),
        "counts": callable(getattr(provider, "count_tokens", None)),
        "streams": callable(getattr(provider, "stream", None)),
    }


def _tool(name: str, tool: Any) -> dict[str, Any]:
    declared = declaration_of(tool)
    return {
        "name": name,
        "own_name": str(getattr(tool, "name", name)),
        "module": package_of(innermost(tool)),
        "description": str(getattr(tool, "description", "")),
        "input_schema": plain(input_schema_of(tool)),
        "effect": declared.effect,
        "deadline_seconds": declared.deadline_seconds,
        "output_trusted": declared.output_trusted,
        "require_approval": getattr(tool, "require_approval", None) is True,
        "network": plain(getattr(tool, "network", None)),
        "is_bounded": getattr(tool, "is_bounded", None) is True,
        "edits_files": getattr(tool, "edits_files", None) is True,
        "answers": [name for name in QUESTIONS if callable(getattr(tool, name, None))],
    }


@functools.cache
def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


_WRAPPERS = (
    ("context", RecordedContext),
    ("providers", RecordedProvider),
    ("tools", RecordedTool),
    ("orchestrator", RecordedLoop),
)


class ChildLog(NamedTuple):
    """The log of a child session, and how to close it when the child has ended.

    `before` is the state of a child that is resumed; for a new one it is empty.
    """

    writer: LogWriter
    close: Callable[[Recorder], Awaitable[None]]
    before: SessionState


OpenChild = Callable[["Recorder", Any, MessageScrubber], ChildLog]
"""Makes the log of a child session; takes its parent's recorder, its coordinator and the scrubber
that its records have to pass."""


class Call:
    """A model or tool call in progress; one that `asks_others` is not charged for their cost."""

    __slots__ = ("asks_others", "began", "id", "kind")

    def __init__(self, kind: str, call_id: str) -> None:
        self.kind = kind
        self.id = call_id
        self.began = perf_counter()
        self.asks_others = False


class Recorder:
    """Writes one session's log; children get recorders of their own.

    `opening` is how often the session was opened, `turn` its last turn, and `known` has the digests
    of the parts that are in the log already. `priority` is that of the interposers. `name_call`
    names calls where counting them would not give the same names in every run.
    """

    def __init__(
        self,
        coordinator: Any,
        writer: LogWriter,
        scrubber: MessageScrubber,
        *,
        open_child: OpenChild | None = None,
        parent: Recorder | None = None,
        opening: int = 1,
        turn: int = 0,
        known: Iterable[str] = (),
        priority: int = INNERMOST,
        name_call: NameCall | None = None,
    ) -> None:
        self.coordinator = coordinator
        self.writer = writer
        self.turn = turn
        # The sum of all known costs; `unpriced_calls` come on top.
        self.cost_usd: Decimal | None = None
        self.unpriced_calls = 0
        self.opened_plan: Any = None
        self.first_prompt: str | None = None
        self.is_paused = False
        self._log = Log(writer)
        self._scrubber = scrubber
        self._requests = RequestWriter(self.note, scrubber.scrub, known)
        self._parent = parent
        self._open_child = open_child
        self._family: dict[str, Recorder] = parent._family if parent else {}
        self._family[coordinator.session_id] = self
        self._opening = opening
        self._priority = priority
        self._name_call = name_call
        self._calls = 0
        self._open: dict[str, Call] = {}
        self._turn_began: float | None = None
        self._stop_reason: str | None = None
        self._cancel_seen: Any = coordinator.cancellation.state
        self._inventory: list[int] = []
        self._state = "{}"
        self._told_failure = False
        self._undo: list[Callable[[], Any]] = []
        self._watch = Watch(
            coordinator, self._hear, (), name=NAME, priority=_FIRST, is_wanted=_is_recorded
        )

    @property
    def is_open(self) -> bool:
        """Whether the log has been opened; until then, records are held."""
        return self._log.is_open

    # --- wrapping the session --------------------------------------------------------------------

    async def listen(self) -> None:
        """Record events, messages to the user and questions from now on; called before mounting."""
        coordinator = self.coordinator
        token = self.coordinator.cancellation
        # A child has the systems of its parent, which are wrapped already.
        if self._parent is None:
            approvals = coordinator.approval_system
            if approvals is not None and not getattr(approvals, "records_itself", False):
                coordinator.approval_system = RecordedApprovals(approvals, self)
            if coordinator.display_system is not None:
                coordinator.display_system = RecordedDisplay(coordinator.display_system, self)
        token.add_interrupt(self._note_cancel)
        self._undo.append(lambda: token.remove_interrupt(self._note_cancel))
        await self._watch.refresh([FAILED])

    async def attach(
        self,
        plan: dict[str, Any] | None = None,
        *,
        resumed: bool = False,
        bundle: str | None = None,
    ) -> None:
        """Wrap the mounted modules and open the log; `plan` if it is not the session's own."""
        # A child has inherited the wrapper of the loop, which is the last one.
        for point, wrapper in _WRAPPERS if self._parent is None else _WRAPPERS[:-1]:

            def wrap(name: str, module: Any, wrapper: Any = wrapper) -> Any:
                return wrapper(name, module, self)

            # Only the wrapper of the loop is inherited: it is called first in a child, and
            # is passed the child's coordinator, from which `of` makes a recorder of its own.
            undo = self.coordinator.interpose(
                point, wrap, name=NAME, priority=self._priority, inherit=point == "orchestrator"
            )
            self._undo.append(undo)
        await self._watch.refresh()
        self._learn()
        opened = opening_of(self.coordinator, plan, resumed=resumed, bundle=bundle)
        self.opened_plan = opened["plan"]
        self._log.release("session.opened", opened)
        self._note_inventory()

    def note_failed_opening(self, error: BaseException) -> None:
        """Open the log of a session whose modules did not mount, with their error."""
        opened = opening_of(self.coordinator, None, resumed=False, bundle=None)
        self._log.release("session.opened", {**opened, "error": plain_error(error)})

    def detach(self) -> None:
        """Stop recording; the session can continue."""
        self._watch.stop()
        while self._undo:
            self._undo.pop()()
        self._family.pop(self.coordinator.session_id, None)

    async def of(self, coordinator: Any) -> Recorder:
        """Return the recorder of a session: this one, or that of a child, created on first use."""
        if coordinator is None or coordinator is self.coordinator:
            return self
        known = self._family.get(coordinator.session_id)
        # A child that is resumed has the same id, but another coordinator.
        if known is not None and known.coordinator is coordinator:
            return known
        parent = self._family.get(coordinator.parent_id or "", self)
        # No child is started under a log that cannot be written.
        await parent.check()
        if self._open_child is None:
            return parent
        return await parent._adopt(coordinator)

    async def _adopt(self, coordinator: Any) -> Recorder:
        """Start recording a child session; raises if its log cannot be created."""
        open_child = cast("OpenChild", self._open_child)
        scrubber = MessageScrubber(coordinator)
        log = open_child(self, coordinator, scrubber)
        before = log.before
        child = Recorder(
            coordinator,
            log.writer,
            scrubber,
            open_child=open_child,
            parent=self,
            opening=before.openings + 1,
            turn=before.turns,
            known=before.digests,
        )
        inside = call_of(self)
        self.note("child", {"session_id": coordinator.session_id, "inside": inside})
        await child.listen()
        await child.attach(resumed=before.openings > 0)
        messages = await coordinator.mount_points["context"].get_messages()
        # What a child was started with is not in any record of its own yet.
        if messages != before.messages:
            await child.note_messages(messages)

        async def close() -> None:
            child.detach()
            # A parent that was detached first writes no more.
            if self.coordinator.session_id in self._family:
                self.note("child.ended", {"session_id": coordinator.session_id})
            await log.close(child)

        coordinator.register_cleanup(close)
        return child

    # --- writing ---------------------------------------------------------------------------------

    def note(self, kind: str, data: dict[str, Any], *, is_clean: bool = False) -> None:
        """Write one record, after a cancellation that came before it.

        One that `is_clean` is not scrubbed again, which is most of the cost of a record.
        """
        # A graceful cancellation calls no interrupt, so that it is noticed at the next record.
        if self.coordinator.cancellation.state is not self._cancel_seen:
            self._note_cancel()
        self._log.write(kind, data, is_clean=is_clean)

    def without_secrets(self, text: str) -> str:
        """Return a text scrubbed like those in the log."""
        return self._scrubber.scrub_text(text)

    async def check(self) -> None:
        """Raise RecordingFailedError if the log cannot be written, and announce it once."""
        failure = self._log.failure
        if failure is None:
            return
        if not self._told_failure:
            self._told_failure = True
            reason = describe_error(failure)
            line = f"The session's log cannot be written; the turn stops here. {reason}"
            show(self.coordinator, line, "error", source=NAME)
            await self.coordinator.hooks.emit(FAILED, {"error": reason})
        self._log.check()

    async def note_message(self, message: dict[str, Any]) -> None:
        """Record a message that was added to the context."""
        if not self.is_paused:
            stored, digest = self._requests.note_stored(plain(message))
            facts = {"message": stored, "digest": digest, "turn": self.turn}
            self.note("message", facts, is_clean=True)

    async def note_messages(self, messages: list[dict[str, Any]], reason: str = "set") -> None:
        """Record that the context has exactly these messages."""
        if not self.is_paused:
            stored = [plain(each) for each in messages]
            self.note("messages", {"messages": stored, "reason": reason, "turn": self.turn})

    def note_count(self, provider: str, tokens: Any) -> None:
        """Record how many tokens a provider counted."""
        self.note("model.count", {"provider": provider, "tokens": plain(tokens)})

    async def begin_model_call(
        self, name: str, provider: Any, request: Any, options: dict[str, Any]
    ) -> Call:
        """Record a request before it is sent; raises if it cannot be written."""
        outer = call_of(self)
        if outer is not None and outer in self._open:
            self._open[outer].asks_others = True
        written = self._requests.take(request, options)
        call = self._begin("model", written["digest"])
        self._requests.note_sent(call.id)
        who = {"provider": name, "module": package_of(innermost(provider))}
        facts = {"call": call.id, "turn": self.turn, **who, "request": written, "inside": outer}
        self.note("model.call", facts)
        await self._check_begun(call)
        return call

    async def begin_tool_call(
        self, name: str, tool: Any, tool_call_id: str | None, given: dict[str, Any]
    ) -> Call:
        """Record a tool call before it is run; raises if it cannot be written."""
        outer = call_of(self)
        written = plain(given)
        call = self._begin("tool", tool_call_id, name, written)
        who = {"tool_call_id": tool_call_id, "tool": name, "module": package_of(innermost(tool))}
        facts = {"call": call.id, "turn": self.turn, **who, "input": written, "inside": outer}
        self.note("tool.call", facts)
        await self._check_begun(call)
        return call

    async def end_call(
        self, call: Call, error: BaseException | None = None, **outcome: Any
    ) -> None:
        """Record the outcome of a call."""
        seconds = round(perf_counter() - call.began, 6)
        if error is not None:
            outcome = {"error": plain_error(error)}
        self.note(f"{call.kind}.result", {"call": call.id, **outcome, "seconds": seconds})
        self._open.pop(call.id, None)
        # A provider that only calls others reports their usage again.
        if call.kind == "model" and not call.asks_others:
            self._charge(cost_of_result(outcome), is_unpriced(outcome))
        # Directly after the result: a replay takes it for the change that this call made.
        self._note_state()

    async def begin_turn(self, prompt: str | list[dict[str, Any]]) -> bool:
        """Record a prompt, durable when this returns; False if the turn has begun already."""
        if self._turn_began is not None:
            return False
        self._turn_began = perf_counter()
        self._stop_reason = None
        self.turn += 1
        text = text_of_prompt(prompt)
        if self.first_prompt is None:
            self.first_prompt = text
        self._learn()
        self._note_inventory()
        facts: dict[str, Any] = {"text": text, "turn": self.turn, "opening": self._opening}
        if not isinstance(prompt, str):
            facts["content"] = plain(prompt)
        schema = self.coordinator.get_capability(OUTPUT_SCHEMA)
        if schema is not None:
            facts["output_schema"] = plain(schema)
        self.note("prompt", facts)
        # In a thread, because it blocks, and other sessions may run on this event loop.
        await asyncio.to_thread(self._log.sync)
        try:
            await self.check()
        except RecordingFailedError:
            self._turn_began = None
            raise
        return True

    async def end_turn(
        self, answer: str | None, error: BaseException | None, *, stop_reason: str | None = None
    ) -> None:
        """Record how a turn ended, durable when this returns.

        `stop_reason` is used if the loop could not report one.
        """
        began = self._turn_began or perf_counter()
        self._turn_began = None
        self._note_checkpoint()
        self._note_state()
        reason = self._stop_reason or stop_reason or ("completed" if error is None else "error")
        if error is None:
            outcome = {"answer": answer}
        else:
            outcome = {"error": plain_error(error)}
        seconds = round(perf_counter() - began, 6)
        facts = {"turn": self.turn, "stop_reason": reason, **outcome, "seconds": seconds}
        self.note("turn.ended", facts)
        await asyncio.to_thread(self._log.sync)

    # --- events and state ------------------------------------------------------------------------

    async def _hear(self, event: str, data: Any) -> None:
        await self._watch.keep_up(event)
        facts: Any = plain(data)
        if isinstance(data, dict):
            given = cast("dict[str, Any]", data)
            if event == events.ORCHESTRATOR_COMPLETE:
                self._stop_reason = given.get("stop_reason") or given.get("status")
            facts = news_in(event, given, self.coordinator, self._scrubber.scrub)
        inside = call_of(self)
        self.note("event", {"name": event, "data": facts, "inside": inside})
        if event == MODE_CHANGED:
            # The user may leave before another turn ends, which would record it too.
            self._note_state()

    def _note_cancel(self) -> None:
        token = self.coordinator.cancellation
        if token.state is self._cancel_seen:
            return
        self._cancel_seen = token.state
        if token.is_cancelled:
            during = list(self._open)
            self._log.write("cancel", {"immediate": token.is_immediate, "during": during})

    def _note_inventory(self) -> None:
        """Record the declarations of providers and tools if other ones are mounted."""
        points = self.coordinator.mount_points
        mounted = [id(each) for point in ("providers", "tools") for each in points[point].values()]
        if mounted != self._inventory:
            self._inventory = mounted
            self.note("mounted", inventory_of(self.coordinator))

    def _note_state(self) -> None:
        """Record what modules keep in `session_state`, if it changed."""
        state: dict[str, Any] = self.coordinator.session_state
        if not state and self._state == "{}":
            return
        # Compared as text: modules change their containers in place.
        text = json.dumps(plain_state(state), sort_keys=True)
        if text != self._state:
            self._state = text
            self.note("state", {"values": json.loads(text)})

    def _note_checkpoint(self) -> None:
        """Record which checkpoint undoes this turn, if it changed files."""
        checkpoints: Any = self.coordinator.get_capability("files.checkpoints")
        current: int | None = getattr(checkpoints, "current", None)
        if current is not None:
            self.note("checkpoint", {"turn": self.turn, "id": current})

    def _learn(self) -> None:
        """Read the known secrets again; parts that were clean before may contain a new one."""
        self._scrubber.learn()
        self._requests.forget_clean()

    def _begin(self, kind: str, *asked: Any) -> Call:
        self._calls += 1
        if self._name_call is None:
            name = f"{self._opening}.{self._calls}"
        else:
            name = self._name_call(kind, asked)
        call = Call(kind, name)
        self._open[call.id] = call
        return call

    async def _check_begun(self, call: Call) -> None:
        if self._log.failure is not None:
            self._open.pop(call.id, None)
            await self.check()

    def _charge(self, cost: Decimal | None, unpriced: bool) -> None:
        if cost is not None:
            if self.cost_usd is None:
                self.cost_usd = cost
            else:
                self.cost_usd = self.cost_usd + cost
        self.unpriced_calls += unpriced
        if self._parent is not None:
            self._parent._charge(cost, unpriced)


def _is_recorded(event: str) -> bool:
    return not is_live(event)
