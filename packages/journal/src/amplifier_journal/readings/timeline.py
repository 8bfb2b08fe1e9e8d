"""When what happened: the spans of a session, for a waterfall."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal, NamedTuple

__all__ = ["Span", "timeline"]


class Span(NamedTuple):
    """Something that lasted, in seconds since the first record; `parent` is the span around it.

    An `ok` of None means that the record ends before it does.
    """

    id: str
    parent: str | None
    kind: Literal["turn", "model", "tool", "approval", "child"]
    name: str
    module: str
    start: float
    end: float
    ok: bool | None
    seq: int


def timeline(records: Iterable[Any]) -> list[Span]:
    """Return the spans in the order they began; each comes after the one around it."""
    spans: dict[str, Span] = {}
    origin: float | None = None
    now = 0.0
    turn = None
    for record in records:
        moment = datetime.fromisoformat(record.at).timestamp()
        origin = moment if origin is None else origin
        # The clock may be set back while a session runs; time in a picture only goes on.
        now = max(now, moment - origin)
        data: dict[str, Any] = record.data
        if record.kind == "prompt":
            turn = f"turn {data['turn']}"
            spans[turn] = Span(turn, None, "turn", turn, "", now, now, None, record.seq)
        elif record.kind == "turn.ended":
            _end(spans, f"turn {data['turn']}", now, data)
        elif record.kind in ("model.call", "tool.call"):
            spans[data["call"]] = _call(record, turn, now)
        elif record.kind in ("model.result", "tool.result"):
            _end(spans, data["call"], now, data)
        elif record.kind == "approval":
            start = max(0.0, now - float(data.get("seconds") or 0.0))
            name = str(data["decision"])
            ok = str(data["decision"]).lower().startswith("allow")
            key = f"approval {record.seq}"
            spans[key] = Span(key, turn, "approval", name, "", start, now, ok, record.seq)
        elif record.kind == "child":
            key = data["session_id"]
            inside = data.get("inside") or turn
            spans[key] = Span(key, inside, "child", key, "", now, now, None, record.seq)
        elif record.kind == "child.ended":
            _end(spans, data["session_id"], now, data)
    return [_still_open(each, now) for each in spans.values()]


def _call(record: Any, turn: str | None, now: float) -> Span:
    data: dict[str, Any] = record.data
    is_model = record.kind == "model.call"
    name = data["provider"] if is_model else data["tool"]
    around = data.get("inside") or turn
    kind = "model" if is_model else "tool"
    return Span(data["call"], around, kind, name, data["module"], now, now, None, record.seq)


def _end(spans: dict[str, Span], key: str, now: float, data: dict[str, Any]) -> None:
    if key in spans:
        result: Any = data.get("result")
        failed = isinstance(result, dict) and result.get("success") is False  # pyright: ignore[reportUnknownMemberType] - any JSON
        ok = data.get("error") is None and not failed
        spans[key] = spans[key]._replace(end=now, ok=ok)


def _still_open(span: Span, now: float) -> Span:
    if span.ok is None:
        return span._replace(end=now)
    return span
