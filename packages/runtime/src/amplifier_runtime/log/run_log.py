"""What one run of a turn writes: records, each once in all runs of the turn, and live events."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from amplifier_core import events
from amplifier_core.correlation import current_tool_call_id
from amplifier_journal.plain import digest_of, plain
from amplifier_kit.secrets.messages import MessageScrubber
from amplifier_runtime.database.store import to_json
from amplifier_runtime.log.log_rows import SUPERSEDED, LogRow, first_number
from amplifier_runtime.turns.journal import call_digest, latest_model_call, scope
from amplifier_runtime.turns.steps import DIVERGED, OUTCOME_UNKNOWN
from amplifier_runtime.turns.turn_run import RESUMED, TurnRun

__all__ = ["TOOL_OUTPUT", "RunLog", "content_digest", "part_key"]

TOOL_OUTPUT = "tool:output"

# Each is said by one run only; no later run would say it again.
_ONLY_ONCE = frozenset({OUTCOME_UNKNOWN, DIVERGED})
# A durable session neither begins nor ends with the process that runs a turn of it. The output of
# a tool that runs is shown live; without somebody at a terminal, its result is enough.
_NOT_RECORDED = frozenset(
    {
        TOOL_OUTPUT,
        events.SESSION_START,
        events.SESSION_RESUME,
        events.SESSION_FORK,
        events.SESSION_END,
        "session:config",
    }
)
# What adds up to the history and the state of a session.
_OF_THE_HISTORY = frozenset({"message", "messages", "state"})


class RunLog:
    """The log as one run writes it; the recorder appends to it.

    `pending` is what is not written yet, numbered as it came. Whatever came up to `urgent` has to
    be written before the journal continues: no later run would say it again. `closing` is written
    with the end of the turn and not before.
    """

    def __init__(
        self, run: TurnRun, scrubber: MessageScrubber, wake: Callable[[RunLog], None]
    ) -> None:
        self.run = run
        self.pending: list[tuple[int, LogRow]] = []
        self.closing: list[LogRow] | None = None
        self.taken = 0
        self.urgent = 0
        self.is_committed = False
        # What the history of the turn consists of, in this run: the keys of its records.
        self.history: list[tuple[str, str, dict[str, Any]]] = []
        # What earlier turns have written and would only write again, by kind.
        self.unchanged: dict[str, str] = {}
        self._scrubber = scrubber
        self._wake = wake
        self._number = first_number(run.claim.epoch)
        self._occurrences: Counter[str] = Counter()
        self._named: Counter[str] = Counter()

    # --- records, as the recorder writes them ----------------------------------------------------

    def append(self, kind: str, data: dict[str, Any], *, is_clean: bool = False) -> int:
        """Take one record; one that is in the log already, by any run, is not written again."""
        # What a loop says on its way out of a run that is over is not about the turn.
        if self.run.is_ended or (kind == "event" and data["name"] in _NOT_RECORDED):
            return 0
        clean = data if is_clean else self._scrubber.scrub(plain(data))
        if kind in self.unchanged and self.unchanged[kind] == content_digest(clean):
            return 0
        self.unchanged.pop(kind, None)
        key = self._key(kind, clean)
        if kind in _OF_THE_HISTORY:
            self.history.append((key, kind, clean))
        claim = self.run.claim
        row = LogRow(claim.session_id, claim.turn_id, claim.epoch, kind, to_json(clean), key=key)
        if self.closing is not None:
            self.closing.append(row)
        else:
            self._take(row)
            if scope() or kind == "approval.asked" or _is_said_once(kind, clean):
                self.urgent = self.taken
        return self.taken

    def sync(self) -> None:
        """Do nothing: the journal waits for what it must not be ahead of."""

    def name_call(self, kind: str, asked: tuple[Any, ...]) -> str:
        """Name a call by what it asks for, so that every run of the turn names it alike."""
        digest = call_digest(kind, scope(), *asked)
        self._named[digest] += 1
        text = f"{digest}:{self._named[digest]}"
        return f"{self.run.claim.ordinal}.{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def _key(self, kind: str, data: dict[str, Any]) -> str:
        """Return the one key that a record has in all runs of the turn."""
        claim = self.run.claim
        if kind == "part":
            return part_key(claim.session_id, data["digest"])
        identity = _identity(kind, data)
        name = f"{claim.turn_id}:{kind}:{identity}"
        self._occurrences[name] += 1
        return f"{name}:{self._occurrences[name]}"

    # --- live events -----------------------------------------------------------------------------

    def show(self, event: str, facts: dict[str, Any]) -> None:
        """Take one live event."""
        self._number += 1
        call = latest_model_call()
        made = scope()[:-1] or (call.key if call is not None else "")
        claim = self.run.claim
        self._take(
            LogRow(
                claim.session_id,
                claim.turn_id,
                claim.epoch,
                event,
                to_json(self._scrubber.scrub(facts)),
                number=self._number,
                call=made,
            )
        )

    def give_up_live(self) -> None:
        """Void all that this run has shown, when too much of it waits to be written."""
        self.pending = [each for each in self.pending if each[1].key]
        numbers = [[first_number(self.run.claim.epoch) + 1, self._number]]
        self.append(SUPERSEDED, {"turn_id": self.run.claim.turn_id, "numbers": numbers})

    # --- what waits to be written ----------------------------------------------------------------

    def is_waiting(self, until: int) -> bool:
        """Whether something of what came up to `until` is not written yet."""
        return bool(self.pending) and self.pending[0][0] <= until

    def rows_at_the_end(self) -> list[LogRow]:
        """Return what the end of the turn has to write: the rest of the records.

        Some of them may be about to be written otherwise: who comes second finds them there.
        """
        rest = [row for _, row in self.pending if row.key]
        return [*rest, *(self.closing or ())]

    def _take(self, row: LogRow) -> None:
        self.taken += 1
        self.pending.append((self.taken, row))
        self._wake(self)


def part_key(session_id: str, digest: str) -> str:
    """Return the key of a part: it is written once for the whole session."""
    return f"{session_id}:part:{digest}"


def content_digest(data: dict[str, Any]) -> str:
    """Return the digest of what a record of the opening says, without whether it was the first."""
    return digest_of({key: value for key, value in data.items() if key != "resumed"})


def _is_said_once(kind: str, data: dict[str, Any]) -> bool:
    return kind == "event" and data["name"] in _ONLY_ONCE


def _identity(kind: str, data: dict[str, Any]) -> str:
    """Return what a record is about, by names that are the same in every run."""
    if kind in ("model.call", "model.result", "tool.call", "tool.result"):
        return str(data["call"])
    if kind in ("approval.asked", "approval") and data.get("approval_id"):
        # By its row alone: a run that finds some answers in the journal counts fewer questions.
        return str(data["approval_id"])
    if kind == "message":
        return str(data["digest"])
    if kind in ("messages", "state"):
        return digest_of(data)
    if kind in ("child", "child.ended"):
        return _hash((str(data["session_id"]), *_place()))
    if kind == "event":
        return _hash(_event_parts(data["name"], data["data"]))
    if kind in _ONCE_A_TURN:
        return ""
    return _hash(_place())


_ONCE_A_TURN = frozenset({"session.opened", "mounted", "prompt", "turn.ended", "checkpoint"})


def _event_parts(event: str, facts: Any) -> Iterable[str]:
    yield event
    yield from _place()
    if isinstance(facts, dict):
        yield str(facts.get("tool_call_id") or "")  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - any JSON
        if event == RESUMED:
            yield str(facts.get("epoch"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - any JSON


def _place() -> Iterable[str]:
    """Yield where in the turn the running code is."""
    call = latest_model_call()
    yield scope()
    yield current_tool_call_id() or ""
    # By what it asks and not by its number: parallel calls come in any order.
    yield "" if call is None else f"{call.facts['scope']}{call.facts['digest']}"


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("|".join(parts).encode(errors="replace")).hexdigest()[:16]
