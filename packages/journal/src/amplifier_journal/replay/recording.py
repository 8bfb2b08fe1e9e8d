"""A recording: the records of one session, as a replay uses them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Any, NamedTuple

from amplifier_journal.readings.state import SessionState, state_of

__all__ = ["Opening", "RecordedCall", "Recording"]


class RecordedCall(NamedTuple):
    """A recorded call: its target, its outcome, and the events in between.

    `end` is the record with the outcome; without one, the recording process died in the call.
    `state` is what had changed in `session_state` when it ended.
    """

    call: str
    kind: str
    name: str
    tool_call_id: str | None
    given: dict[str, Any]
    seq: int
    end: int | None
    outcome: dict[str, Any]
    events: list[dict[str, Any]]
    state: dict[str, Any]


class Opening(NamedTuple):
    """One opening of a session: its plan, and the records until the next one.

    `before` is the state at the first prompt, `mounted` what was mounted then: an
    opening that changed neither plan nor modules has no records of them.
    """

    opened: dict[str, Any]
    mounted: dict[str, Any]
    before: SessionState
    records: list[Any]


class Recording:
    """The records of a session, divided into openings."""

    def __init__(self, session_id: str, records: Iterable[Any]) -> None:
        self.session_id = session_id
        self.records = list(records)

    def openings(self) -> list[Opening]:
        """Return the openings of the session, in order."""
        openings: list[Opening] = []
        opened: dict[str, Any] = {}
        mounted: dict[str, Any] = {}
        state = SessionState()
        # Each opening continues the state of the one before: folding all records for each would
        # be quadratic.
        folded = 0
        starts = self._starts()
        for start, end in zip(starts, [*starts[1:], len(self.records)], strict=True):
            records = self.records[start:end]
            until_prompt = list(takewhile(lambda each: each.kind != "prompt", records))
            for record in until_prompt:
                if record.kind == "session.opened":
                    opened = record.data
                elif record.kind == "mounted":
                    mounted = record.data
            is_first = until_prompt and until_prompt[0].kind == "session.opened"
            state = state_of(self.records[folded : start + len(until_prompt)], state)
            folded = start + len(until_prompt)
            # An opening without a record of its own is like the one before, but resumed.
            known = opened if is_first else {**opened, "resumed": True}
            openings.append(Opening(known, mounted, state, records))
            mounted = next((e.data for e in reversed(records) if e.kind == "mounted"), mounted)
        return openings

    def _starts(self) -> list[int]:
        """Return where each opening begins: at its own record, or after the turn before it."""
        starts: list[int] = []
        between: int | None = None
        opening: int | None = None
        for at, record in enumerate(self.records):
            if record.kind == "session.opened":
                starts.append(at)
                opening = None
            elif record.kind == "turn.ended":
                between = at + 1
            elif record.kind == "fork":
                # It may have cut off a turn, which then has no end.
                between = at
            elif record.kind == "prompt":
                now = record.data.get("opening")
                if opening is not None and now != opening:
                    starts.append(at if between is None else between)
                opening = now
                between = None
        return starts


def calls_in(records: list[Any]) -> list[RecordedCall]:
    """Return the recorded calls in the order they began, without those that only called others."""
    results = {
        each.data["call"]: each for each in records if each.kind in ("model.result", "tool.result")
    }
    inner: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if record.kind == "event" and record.data.get("inside"):
            inner.setdefault(record.data["inside"], []).append({**record.data, "seq": record.seq})
    states = _state_changes(records)
    composite = composite_calls(records)
    found: list[RecordedCall] = []
    for record in records:
        data = record.data
        if record.kind not in ("model.call", "tool.call") or data["call"] in composite:
            continue
        result = results.get(data["call"])
        end = None if result is None else result.seq
        events = [e for e in inner.get(data["call"], []) if end is None or e["seq"] < end]
        is_model = record.kind == "model.call"
        found.append(
            RecordedCall(
                data["call"],
                "model" if is_model else "tool",
                data["provider"] if is_model else data["tool"],
                data.get("tool_call_id"),
                data.get("input") or {},
                record.seq,
                end,
                {} if result is None else result.data,
                events,
                # The recorder writes a changed state directly after the result.
                {} if end is None else states.get(end + 1, {}),
            )
        )
    return found


def _state_changes(records: list[Any]) -> dict[int, dict[str, Any]]:
    """Return the changes of each `state` record against the one before, by its number."""
    changes: dict[int, dict[str, Any]] = {}
    before: dict[str, Any] = {}
    for record in records:
        if record.kind == "state":
            now: dict[str, Any] = record.data["values"]
            changes[record.seq] = {
                key: value
                for key, value in now.items()
                if key not in before or before[key] != value
            }
            before = now
    return changes


def composite_calls(records: list[Any]) -> set[str]:
    """Return the model calls that were answered by calling other recorded models."""
    models = {each.data["call"] for each in records if each.kind == "model.call"}
    inside = {each.data.get("inside") for each in records if each.kind == "model.call"}
    return models & inside


def composite_providers(records: list[Any]) -> set[str]:
    """Return the names of providers that only call others; a replay runs them for real."""
    calls = composite_calls(records)
    return {
        each.data["provider"]
        for each in records
        if each.kind == "model.call" and each.data["call"] in calls
    }
