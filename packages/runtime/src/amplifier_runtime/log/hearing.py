"""Hearing one run: what goes into the log under which key, what is only shown, all scrubbed."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, cast

from amplifier_core import events
from amplifier_core.correlation import current_tool_call_id
from amplifier_journal.plain import plain, shortened
from amplifier_kit.calls.block_stream import STREAM_EVENTS
from amplifier_kit.secrets.messages import MessageScrubber
from amplifier_kit.secrets.scrubber import EventStreams, Scrubber
from amplifier_kit.secrets.watch import Watch
from amplifier_runtime.database.store import to_json
from amplifier_runtime.log.event_rows import SUPERSEDED, Record, first_number
from amplifier_runtime.signals.asking import ANSWERED, ASKED
from amplifier_runtime.turns.journal import latest_model_call, scope
from amplifier_runtime.turns.steps import DIVERGED, OUTCOME_UNKNOWN
from amplifier_runtime.turns.turn_run import RESUMED, TurnRun

__all__ = ["Hearing"]

NAME = "log"
# First of all handlers: what a guard denies is heard too.
_FIRST = -sys.maxsize
# A durable session neither begins nor ends with the process that runs a turn of it.
_OF_THE_PROCESS = frozenset(
    {events.SESSION_START, events.SESSION_RESUME, events.SESSION_END, "session:config"}
)
_LIVE = frozenset({"tool:output", "tool:heartbeat"})
# Each is said by one run only; no later run would say it again.
_ONLY_ONCE = frozenset({OUTCOME_UNKNOWN, DIVERGED})
# In the log before the journal continues. A run that finds the answer of a question in the journal
# does not say that it was asked; the log would have an answer without its question.
_BEFORE_THE_JOURNAL = _ONLY_ONCE | {ASKED}
_TEXTS = ("text", "delta")


class Hearing:
    """What one run says, from the first module mounted to its end.

    `pending` is what is not written yet, numbered as it came. Whatever came up to `urgent` has to
    be written before the journal goes on: no later run would say it again.
    """

    def __init__(self, run: TurnRun, event_bytes: int, wake: Callable[[Hearing], None]) -> None:
        self.run = run
        self.pending: list[tuple[int, Record]] = []
        self.taken = self.urgent = 0
        self.is_committed = False
        self._event_bytes = event_bytes
        self._wake = wake
        self._number = first_number(run.claim.epoch)
        self._occurrences: Counter[str] = Counter()
        coordinator = run.session.coordinator
        self._messages = MessageScrubber(coordinator)
        scrubber = Scrubber()
        self._streams = EventStreams(scrubber)
        self._watch = Watch(coordinator, self._hear, [scrubber], name=NAME, priority=_FIRST)

    async def listen(self) -> None:
        """Hear every event that is known by now."""
        self._messages.learn()
        own = (RESUMED, ASKED, ANSWERED, *_ONLY_ONCE)
        await self._watch.refresh((*STREAM_EVENTS, "tool:output", *own))

    def stop(self) -> None:
        """Hear nothing any more."""
        self._watch.stop()

    def is_waiting(self, until: int) -> bool:
        """Whether something of what came up to `until` is not written yet."""
        return bool(self.pending) and self.pending[0][0] <= until

    def event(self, name: str, facts: dict[str, Any], identity: str) -> Record:
        """Return an event of the log: one of this identity in all runs of the turn."""
        claim = self.run.claim
        key = f"{claim.turn_id}:{name}:{identity}"
        return Record(
            claim.session_id, claim.turn_id, claim.epoch, name, self._clean(facts), key=key
        )

    def give_up_live(self) -> None:
        """Void all that this run has shown, when too much of it waits to be written."""
        self.pending = [each for each in self.pending if each[1].key]
        numbers = [[first_number(self.run.claim.epoch) + 1, self._number]]
        facts = {"turn_id": self.run.claim.turn_id, "numbers": numbers}
        self._take(self.event(SUPERSEDED, facts, f"{self._number}"))

    async def _hear(self, event: str, data: Any) -> None:
        await self._watch.keep_up(event)
        if event == events.EXECUTION_START:
            self._messages.learn()
        # What a loop says on its way out of a run that is over is not about the turn.
        if event in _OF_THE_PROCESS or self.run.is_ended:
            return
        facts = self._news(event, data)
        is_live = _is_live(event)
        if is_live and _is_replayed():
            return
        for name, rest in self._streams.end(event, facts):
            self._show(name, rest)
        if is_live:
            fed = self._streams.feed(event, facts)
            # A piece whose end may be half of a secret waits for the next one.
            if fed is facts or any(fed.get(each) for each in _TEXTS):
                self._show(event, fed)
            return
        identity = _identity(event, facts)
        self._occurrences[event + identity] += 1
        identity = f"{identity}:{self._occurrences[event + identity]}"
        self._take(self.event(event, facts, identity))
        if scope() or event in _BEFORE_THE_JOURNAL:
            self.urgent = self.taken

    def _show(self, name: str, facts: dict[str, Any]) -> None:
        self._number += 1
        claim = self.run.claim
        call = latest_model_call()
        made = scope()[:-1] or (call.key if call is not None else "")
        self._take(
            Record(
                claim.session_id,
                claim.turn_id,
                claim.epoch,
                name,
                self._clean(facts),
                number=self._number,
                call=made,
            )
        )

    def _take(self, record: Record) -> None:
        self.taken += 1
        self.pending.append((self.taken, record))
        self._wake(self)

    def _news(self, event: str, data: Any) -> dict[str, Any]:
        """Return what an event says beyond what every row of the log has."""
        given: Any = plain(data)
        if not isinstance(given, dict):
            return {"data": given}
        coordinator = self.run.session.coordinator
        own = {"session_id": coordinator.session_id, "parent_id": coordinator.parent_id}
        facts = {
            key: value
            for key, value in cast("dict[str, Any]", given).items()
            if key != "timestamp" and not (key in own and own[key] == value)
        }
        if event == events.TOOL_POST and facts.get("tool_result") == facts.get("result"):
            facts.pop("tool_result", None)
        return facts

    def _clean(self, facts: dict[str, Any]) -> str:
        """Return the facts as JSON without secrets, cut to size; what was cut says so."""
        clean = self._messages.scrub(facts)
        text = to_json(clean)
        if len(text) <= self._event_bytes:
            return text
        cut = {"cut_bytes": len(text)}
        shorter = to_json({**shortened(clean), **cut})
        if len(shorter) <= self._event_bytes:
            return shorter
        return json.dumps(cut)


def _is_live(event: str) -> bool:
    return event in _LIVE or event.startswith("llm:stream_") or event.endswith("delta")


def _is_replayed() -> bool:
    """Whether what is shown is an answer from the journal, which the log has or will have."""
    call = latest_model_call()
    return not scope() and call is not None and call.kept is not None


def _identity(event: str, facts: dict[str, Any]) -> str:
    """Return what an event is about, by names that are the same in every run."""
    return hashlib.sha256("|".join(_parts(event, facts)).encode(errors="replace")).hexdigest()[:16]


def _parts(event: str, facts: dict[str, Any]) -> Iterator[str]:
    if event in (ASKED, ANSWERED):
        # By its row alone: a run that finds some answers in the journal counts fewer questions.
        yield str(facts.get("approval_id"))
        return
    call = latest_model_call()
    yield scope()
    yield current_tool_call_id() or ""
    # By what it asks and not by its number: parallel calls come in any order.
    yield "" if call is None else f"{call.facts['scope']}{call.facts['digest']}"
    yield str(facts.get("tool_call_id") or "")
    if event == RESUMED:
        yield str(facts.get("epoch"))
