"""What a person saw of a session: prompts, answers, tool calls, questions, lines shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, cast

__all__ = ["Line", "text_of", "transcript"]

Kind = Literal[
    "prompt", "thinking", "answer", "tool", "tool_result", "approval", "notice", "cancel", "error"
]


class Line(NamedTuple):
    """One thing that was seen: who said it, and the record it comes from.

    `call` joins a tool call and its result; `ok` is False for what failed or was denied.
    """

    seq: int
    at: str
    turn: int
    kind: Kind
    text: str
    name: str = ""
    call: str = ""
    ok: bool = True
    seconds: float | None = None
    data: Any = None


def transcript(records: Iterable[Any]) -> list[Line]:
    """Return what was seen, in order."""
    lines: list[Line] = []
    turn = 0
    tools: dict[str, str] = {}
    for record in records:
        data = record.data
        if record.kind == "prompt":
            turn = data["turn"]
        elif record.kind == "tool.call":
            tools[data["call"]] = data["tool"]
        for line in _seen(record, turn):
            lines.append(line._replace(name=tools.get(line.call, line.name)))
    return lines


def text_of(message: dict[str, Any]) -> str:
    """Return the readable text of a message."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return content
    blocks = cast("list[dict[str, Any]]", content or [])
    return "\n\n".join(str(each.get("text") or "") for each in blocks if each.get("type") == "text")


def _seen(record: Any, turn: int) -> list[Line]:
    data: dict[str, Any] = record.data
    make = _Maker(record.seq, record.at, turn)
    if record.kind == "prompt":
        return [make.line("prompt", data["text"])]
    if record.kind == "message" and data["message"].get("role") == "assistant":
        return make.answer(data["message"])
    if record.kind == "tool.call":
        return [make.line("tool", "", name=data["tool"], call=data["call"], data=data["input"])]
    if record.kind == "tool.result":
        return [make.result(data)]
    if record.kind == "approval":
        ok = str(data["decision"]).lower().startswith("allow")
        text = f"{data['prompt']}\n{data['decision']}"
        return [make.line("approval", text, ok=ok, seconds=data.get("seconds"))]
    if record.kind == "display":
        ok = data["level"] != "error"
        return [make.line("notice", data["message"], name=data["source"], ok=ok)]
    if record.kind == "cancel":
        return [make.line("cancel", "at once" if data["immediate"] else "after the step")]
    if record.kind == "turn.ended" and data.get("error"):
        error = data["error"]
        return [make.line("error", f"{error['type']}: {error['message']}", ok=False)]
    return []


class _Maker:
    """Makes the lines of one record."""

    def __init__(self, seq: int, at: str, turn: int) -> None:
        self._place = (seq, at, turn)

    def line(self, kind: Kind, text: str, **facts: Any) -> Line:
        return Line(*self._place, kind, text, **facts)

    def answer(self, message: dict[str, Any]) -> list[Line]:
        content: Any = message.get("content")
        blocks = cast("list[dict[str, Any]]", content) if isinstance(content, list) else []
        thought = [str(each.get("thinking")) for each in blocks if each.get("type") == "thinking"]
        lines = [self.line("thinking", each) for each in thought]
        text = text_of(message)
        return [*lines, self.line("answer", text)] if text else lines

    def result(self, data: dict[str, Any]) -> Line:
        result, error = data.get("result"), data.get("error")
        facts = {"call": data["call"], "seconds": data.get("seconds"), "data": result}
        if error is not None:
            text = f"{error['type']}: {error['message']}"
            return self.line("tool_result", text, ok=False, **facts)
        fields = cast("dict[str, Any]", result) if isinstance(result, dict) else {"output": result}
        ok = fields.get("success") is not False
        failure: dict[str, Any] = fields.get("error") or {}
        shown = fields.get("output") if ok else failure.get("message")
        return self.line("tool_result", "" if shown is None else str(shown), ok=ok, **facts)
