"""The spans of a session over time, for a waterfall chart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from amplifier_journal.readings.items import question_key

__all__ = ["Span", "Timeline", "timeline"]

SpanKind: TypeAlias = Literal["turn", "model", "tool", "approval", "child"]


class Span(NamedTuple):
    """A span in seconds since the first record; `parent` is the id of the span around it.

    `ok` is None for a span that has not ended in the log.
    """

    id: str
    parent: str | None
    kind: SpanKind
    name: str
    module: str
    start: float
    end: float
    ok: bool | None
    seq: int


class Timeline:
    """The spans of a session, record by record."""

    def __init__(self) -> None:
        self._spans: dict[str, Span] = {}
        self._origin: float | None = None
        self._now = 0.0
        self._turn: str | None = None
        self._asked: dict[str, list[str]] = {}
        self._takers: dict[str, Callable[[Any], None]] = {
            "prompt": self._begin_turn,
            "turn.ended": self._end_turn,
            "model.call": self._begin_model_call,
            "model.result": self._end_call,
            "tool.call": self._begin_tool_call,
            "tool.result": self._end_call,
            "approval.asked": self._ask,
            "approval": self._decide,
            "child": self._begin_child,
            "child.ended": self._end_child,
        }

    @property
    def spans(self) -> list[Span]:
        """The spans in the order they began, each after the one around it."""
        return [
            each._replace(end=self._now) if each.ok is None else each
            for each in self._spans.values()
        ]

    def take(self, record: Any) -> None:
        """Add one record, in the order of the log."""
        moment = datetime.fromisoformat(record.at).timestamp()
        if self._origin is None:
            self._origin = moment
        # The clock may be set back while a session runs; no span may have a negative length.
        self._now = max(self._now, moment - self._origin)
        take = self._takers.get(record.kind)
        if take is not None:
            take(record)

    def _begin_turn(self, record: Any) -> None:
        self._turn = f"turn {record.data['turn']}"
        self._begin(record, self._turn, "turn", self._turn)

    def _end_turn(self, record: Any) -> None:
        self._end(f"turn {record.data['turn']}", record.data)

    def _begin_model_call(self, record: Any) -> None:
        self._begin(record, record.data["call"], "model", record.data["provider"])

    def _begin_tool_call(self, record: Any) -> None:
        self._begin(record, record.data["call"], "tool", record.data["tool"])

    def _end_call(self, record: Any) -> None:
        self._end(record.data["call"], record.data)

    def _begin_child(self, record: Any) -> None:
        child = record.data["session_id"]
        self._begin(record, child, "child", child)

    def _end_child(self, record: Any) -> None:
        self._end(record.data["session_id"], record.data)

    def _ask(self, record: Any) -> None:
        key = f"approval {record.seq}"
        self._asked.setdefault(question_key(record.data), []).append(key)
        self._begin(record, key, "approval", "waiting")

    def _decide(self, record: Any) -> None:
        waiting = self._asked.get(question_key(record.data))
        if waiting:
            key = waiting.pop(0)
            start = self._spans[key].start
        else:
            # Logs of earlier versions have the decision only, with the time that it took.
            key = f"approval {record.seq}"
            self._begin(record, key, "approval", "")
            start = max(0.0, self._now - float(record.data.get("seconds") or 0.0))
        decision = str(record.data["decision"])
        ok = decision.lower().startswith("allow")
        self._spans[key] = self._spans[key]._replace(
            name=decision, start=start, end=self._now, ok=ok
        )

    def _begin(self, record: Any, key: str, kind: SpanKind, name: str) -> None:
        if kind == "turn":
            parent = None
        else:
            parent = record.data.get("inside") or self._turn
        module = record.data.get("module") or ""
        now = self._now
        self._spans[key] = Span(key, parent, kind, name, module, now, now, None, record.seq)

    def _end(self, key: str, data: dict[str, Any]) -> None:
        if key in self._spans:
            result: Any = data.get("result")
            failed = isinstance(result, dict) and result.get("success") is False  # pyright: ignore[reportUnknownMemberType] - any JSON
            ok = data.get("error") is None and not failed
            self._spans[key] = self._spans[key]._replace(end=self._now, ok=ok)


def timeline(records: Iterable[Any]) -> list[Span]:
    """Return the spans of all records."""
    reading = Timeline()
    for record in records:
        reading.take(record)
    return reading.spans
