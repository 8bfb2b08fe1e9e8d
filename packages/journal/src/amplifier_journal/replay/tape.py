"""A tape: the records of one session, as a replay plays them."""

from __future__ import annotations

from collections.abc import Iterable
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

    `before` is where the session stood at the first prompt of the act.
    """

    opened: dict[str, Any]
    before: SessionState
    records: list[Any]


class Tape:
    """The records of a session, and what can be found in them."""

    def __init__(self, session_id: str, records: Iterable[Any]) -> None:
        self.session_id = session_id
        self.records = list(records)

    def acts(self) -> list[Act]:
        """Return the openings of the session, in order."""
        starts = [at for at, each in enumerate(self.records) if each.kind == "session.opened"]
        ends = [*starts[1:], len(self.records)]
        acts: list[Act] = []
        for start, end in zip(starts, ends, strict=True):
            prompts = (at for at in range(start, end) if self.records[at].kind == "prompt")
            first = next(prompts, end)
            before = state_of(self.records[:first])
            acts.append(Act(self.records[start].data, before, self.records[start:end]))
        return acts


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
