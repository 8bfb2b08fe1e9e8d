"""A tape: the records of one session, as a replay plays them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Any, NamedTuple

from amplifier_journal.readings.state import SessionState, state_of

__all__ = ["Act", "PlayedCall", "Tape"]


class PlayedCall(NamedTuple):
    """A recorded call: who was asked, what came back, and what was announced in between.

    `end` is the record with the outcome; without one, the recording process died in the call.
    `state` is what had changed of that which the session's modules keep when it had ended.
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


class Act(NamedTuple):
    """One opening of a session: the plan it ran with and what was recorded until the next one.

    `before` is where the session stood at the first prompt of the act, `mounted` what was mounted
    then: an opening that changed neither plan nor modules has no records of them.
    """

    opened: dict[str, Any]
    mounted: dict[str, Any]
    before: SessionState
    records: list[Any]


class Tape:
    """The records of a session, and what can be found in them."""

    def __init__(self, session_id: str, records: Iterable[Any]) -> None:
        self.session_id = session_id
        self.records = list(records)

    def acts(self) -> list[Act]:
        """Return the openings of the session, in order."""
        acts: list[Act] = []
        opened: dict[str, Any] = {}
        mounted: dict[str, Any] = {}
        state = SessionState()
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
            # Without a record of its own, an opening is like the one before, resumed.
            known = opened if is_first else {**opened, "resumed": True}
            acts.append(Act(known, mounted, state, records))
            mounted = next((e.data for e in reversed(records) if e.kind == "mounted"), mounted)
        return acts

    def _starts(self) -> list[int]:
        """Return where each opening begins: with its own record, or behind the turn before it."""
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
                # It may have cut a turn in two, which then has no end.
                between = at
            elif record.kind == "prompt":
                now = record.data.get("opening")
                if opening is not None and now != opening:
                    starts.append(at if between is None else between)
                opening = now
                between = None
        return starts


def calls_in(records: list[Any]) -> list[PlayedCall]:
    """Return the recorded calls in the order they began, without those that only asked others."""
    results = {
        each.data["call"]: each for each in records if each.kind in ("model.result", "tool.result")
    }
    inner: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if record.kind == "event" and record.data.get("inside"):
            inner.setdefault(record.data["inside"], []).append({**record.data, "seq": record.seq})
    states = _state_changes(records)
    composite = composite_calls(records)
    found: list[PlayedCall] = []
    for record in records:
        data = record.data
        if record.kind not in ("model.call", "tool.call") or data["call"] in composite:
            continue
        result = results.get(data["call"])
        end = None if result is None else result.seq
        events = [e for e in inner.get(data["call"], []) if end is None or e["seq"] < end]
        is_model = record.kind == "model.call"
        found.append(
            PlayedCall(
                data["call"],
                "model" if is_model else "tool",
                data["provider"] if is_model else data["tool"],
                data.get("tool_call_id"),
                data.get("input") or {},
                record.seq,
                end,
                {} if result is None else result.data,
                events,
                {} if end is None else states.get(end + 1, {}),
            )
        )
    return found


def _state_changes(records: list[Any]) -> dict[int, dict[str, Any]]:
    """Return what each record of the modules' state has that the one before had not."""
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
    """Return the model calls that were answered by asking other recorded models."""
    models = {each.data["call"] for each in records if each.kind == "model.call"}
    inside = {each.data.get("inside") for each in records if each.kind == "model.call"}
    return models & inside


def composite_providers(records: list[Any]) -> set[str]:
    """Return the names of the providers that only ask others; a replay runs them for real."""
    calls = composite_calls(records)
    return {
        each.data["provider"]
        for each in records
        if each.kind == "model.call" and each.data["call"] in calls
    }
