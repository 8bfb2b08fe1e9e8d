"""What one run of a turn logs: records, each once in all runs of the turn, and live events."""

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

__all__ = ["HISTORY_KINDS", "TOOL_OUTPUT", "RunLog", "content_digest", "part_key"]

TOOL_OUTPUT = "tool:output"

# Emitted by one run only: the journal keeps later runs from emitting them again.
_ONLY_ONCE = frozenset({OUTCOME_UNKNOWN, DIVERGED})
# A durable session neither begins nor ends with the process that runs one of its turns. Output of
# a running tool is shown live only; the log has the tool's result.
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
# The kinds of records from which the history and the state of a session are rebuilt.
HISTORY_KINDS = ("message", "messages", "state")


class RunLog:
    """The log as one run writes it; the recorder appends to it.

    `pending` has the rows that are not written yet, in order and numbered. Those up to `urgent`
    have to be written before the next journal entry: with that entry, no later run would produce
    them again. `closing` has the rows that are written only with the end of the turn.
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
        # Key, kind and data of the records that make up the turn's history in this run.
        self.history: list[tuple[str, str, dict[str, Any]]] = []
        # Digests of records that earlier turns wrote and that are skipped if unchanged, by kind.
        self.unchanged: dict[str, str] = {}
        self._scrubber = scrubber
        self._wake = wake
        self._number = first_number(run.claim.epoch)
        self._occurrences: Counter[str] = Counter()
        self._named: Counter[str] = Counter()

    # --- records, as the recorder writes them ----------------------------------------------------

    def append(self, kind: str, data: dict[str, Any], *, is_clean: bool = False) -> int:
        """Queue one record; it is not written again if any run has written it."""
        # What a loop emits while a run that was ended unwinds does not belong to the turn.
        if self.run.is_ended or (kind == "event" and data["name"] in _NOT_RECORDED):
            return 0
        clean = data if is_clean else self._scrubber.scrub(plain(data))
        if kind in self.unchanged and self.unchanged[kind] == content_digest(clean):
            return 0
        self.unchanged.pop(kind, None)
        key = self._key(kind, clean)
        if kind in HISTORY_KINDS:
            self.history.append((key, kind, clean))
        claim = self.run.claim
        row = LogRow(claim.session_id, claim.turn_id, claim.epoch, kind, to_json(clean), key=key)
        if self.closing is not None:
            self.closing.append(row)
        else:
            self._take(row)
            # Inside a call too: a later run answers it from the journal and never gets there.
            if scope() or kind == "approval.asked" or _is_said_once(kind, clean):
                self.urgent = self.taken
        return self.taken

    def sync(self) -> None:
        """Do nothing: `before_write` makes the journal wait for urgent records."""

    def name_call(self, kind: str, asked: tuple[Any, ...]) -> str:
        """Name a call by a digest of its request, so that it has the same name in every run."""
        digest = call_digest(kind, scope(), *asked)
        self._named[digest] += 1
        text = f"{digest}:{self._named[digest]}"
        return f"{self.run.claim.ordinal}.{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def _key(self, kind: str, data: dict[str, Any]) -> str:
        """Return the key of a record, which is the same in all runs of the turn."""
        claim = self.run.claim
        if kind == "part":
            return part_key(claim.session_id, data["digest"])
        identity = _identity(kind, data)
        name = f"{claim.turn_id}:{kind}:{identity}"
        self._occurrences[name] += 1
        return f"{name}:{self._occurrences[name]}"

    # --- live events -----------------------------------------------------------------------------

    def show(self, event: str, facts: dict[str, Any]) -> None:
        """Queue one live event."""
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
        """Drop the queued live events and void all of this run, when too many are waiting."""
        self.pending = [each for each in self.pending if each[1].key]
        numbers = [[first_number(self.run.claim.epoch) + 1, self._number]]
        self.append(SUPERSEDED, {"turn_id": self.run.claim.turn_id, "numbers": numbers})

    # --- the queue of unwritten rows -------------------------------------------------------------

    def is_waiting(self, until: int) -> bool:
        """Whether a row numbered up to `until` is not written yet."""
        return bool(self.pending) and self.pending[0][0] <= until

    def rows_at_the_end(self) -> list[LogRow]:
        """Return the records that are still to be written with the end of the turn.

        The writer may be writing some of them at the same time; the second one skips them.
        """
        rest = [row for _, row in self.pending if row.key]
        return [*rest, *(self.closing or ())]

    def _take(self, row: LogRow) -> None:
        self.taken += 1
        self.pending.append((self.taken, row))
        self._wake(self)


def part_key(session_id: str, digest: str) -> str:
    """Return the key of a part, which is written once per session."""
    return f"{session_id}:part:{digest}"


def content_digest(data: dict[str, Any]) -> str:
    """Return the digest of an opening record without `resumed`, which only differs by the turn."""
    return digest_of({key: value for key, value in data.items() if key != "resumed"})


def _is_said_once(kind: str, data: dict[str, Any]) -> bool:
    return kind == "event" and data["name"] in _ONLY_ONCE


def _identity(kind: str, data: dict[str, Any]) -> str:
    """Return what identifies a record within its turn, the same in every run."""
    if kind in ("model.call", "model.result", "tool.call", "tool.result"):
        return str(data["call"])
    if kind in ("approval.asked", "approval") and data.get("approval_id"):
        # By its row and not by a count: a run that finds answers in the journal asks fewer.
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
    """Yield what identifies the place in the turn that the running code is at."""
    call = latest_model_call()
    yield scope()
    yield current_tool_call_id() or ""
    # By its request and not by its number: parallel calls come in any order.
    yield "" if call is None else f"{call.facts['scope']}{call.facts['digest']}"


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("|".join(parts).encode(errors="replace")).hexdigest()[:16]
