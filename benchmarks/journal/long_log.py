"""The log of a long session: turns of two model calls and a tool, with the events around them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from typing import Any

from amplifier_journal.records import SCHEMA, Record

_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_STEP = timedelta(milliseconds=40)
_TOOLS = {"tools": [{"name": "read_file", "parameters": {"type": "object"}}]}
_USAGE = {
    "input_tokens": 9_000,
    "output_tokens": 120,
    "cache_read_tokens": 8_000,
    "cost_usd": "0.0123",
}

Entry = tuple[str, dict[str, Any]]


def long_log(records: int) -> list[Record]:
    """Return the first so many records of a session that does not end."""
    made: list[Record] = []
    for seq, (kind, data) in enumerate(islice(_entries(), records), start=1):
        at = (_BEGAN + seq * _STEP).isoformat(timespec="microseconds")[:-6] + "Z"
        made.append(Record(SCHEMA, seq, at, kind, data))
    return made


def _entries() -> Iterator[Entry]:
    tools = [{"own_name": "read_file", "module": "tool-filesystem"}]
    yield "session.opened", {"plan": {}, "config_digest": "plan"}
    yield "mounted", {"providers": [], "tools": tools}
    yield "part", {"digest": "tools", "value": _TOOLS}
    stored = 0
    for turn in count(1):
        yield from _turn(turn, stored)
        stored += 4


def _turn(turn: int, stored: int) -> Iterator[Entry]:
    """Yield a turn; `stored` messages are in the memory before it."""
    call_id = f"call_{turn}"
    about = {"tool_name": "read_file", "tool_call_id": call_id}
    given = {"file_path": f"src/file_{turn}.py"}
    text = "def f() -> None: ...\n" * 20
    asked = [{"type": "tool_call", "id": call_id, "name": "read_file", "input": given}]
    said = [
        {"type": "thinking", "thinking": "What does the file say?"},
        {"type": "text", "text": "It has one function. " * 10},
    ]
    answer = said[1]["text"]
    yield "prompt", {"text": f"Read file {turn}.", "turn": turn}
    yield _event("execution:start")
    yield _event("prompt:submit", prompt=f"Read file {turn}.")
    yield _message(turn, stored, {"role": "user", "content": f"Read file {turn}."})
    yield from _model_call(turn, 1, range(max(0, stored - 1), stored + 1), asked)
    yield _message(turn, stored + 1, {"role": "assistant", "content": asked})
    yield "tool.preflight", {"tool": "read_file", "input": call_id, "problem": None}
    yield _event("tool:pre", **about, tool_input=given)
    if turn % 10 == 0:
        yield from _question(about)
    tool = {"turn": turn, "tool_call_id": call_id, "tool": "read_file"}
    call = f"1.{turn}.tool"
    yield "tool.call", {"call": call, **tool, "module": "tool-filesystem", "input": given}
    result = {"success": True, "output": text}
    yield "tool.result", {"call": call, "result": result, "seconds": 0.01}
    yield _event("tool:post", **about)
    yield _message(turn, stored + 2, {"role": "tool", "tool_call_id": call_id, "content": text})
    yield from _model_call(turn, 2, range(stored + 1, stored + 3), said)
    yield _message(turn, stored + 3, {"role": "assistant", "content": said})
    yield _event("execution:end", status="completed")
    yield _event("orchestrator:complete", stop_reason="completed")
    ending = {"stop_reason": "completed", "answer": answer, "seconds": 1.5}
    yield "turn.ended", {"turn": turn, **ending}


def _model_call(turn: int, number: int, new: range, said: list[dict[str, Any]]) -> Iterator[Entry]:
    """Yield a call that sends all stored messages, and one that a hook adds to this request."""
    call = f"1.{turn}.{number}"
    yield _event("provider:request", provider="mock", iteration=number)
    reminder = f"reminder {call}"
    yield "part", {"digest": reminder, "value": {"role": "user", "content": reminder}}
    then = [*(f"message {at}" for at in new), reminder]
    sent = new.start + len(then)
    request = {"same": new.start, "then": then, "tools": "tools", "messages": sent}
    who = {"call": call, "turn": turn, "provider": "mock", "module": "provider-mock"}
    yield "model.call", {**who, "request": request, "inside": None}
    yield _event("llm:request", model="mock")
    yield _event("llm:response", model="mock", status="ok")
    response = {"content": said, "usage": _USAGE, "finish_reason": "stop"}
    yield "model.result", {"call": call, "response": response, "seconds": 0.7}
    for block in said:
        yield _event("content_block:start", block_type=block["type"])
        yield _event("content_block:end", block_type=block["type"])


def _question(about: dict[str, Any]) -> Iterator[Entry]:
    asked = {"prompt": "Allow read_file?", "options": ["Allow once", "Deny"], "default": "deny"}
    facts = {**asked, "tool_call_id": about["tool_call_id"]}
    yield _event("approval:required", **about)
    yield "approval.asked", facts
    yield "approval", {**facts, "decision": "Allow once", "seconds": 0.2}
    yield _event("approval:granted", **about, reason="rule 1")


def _message(turn: int, at: int, message: dict[str, Any]) -> Entry:
    return "message", {"message": message, "digest": f"message {at}", "turn": turn}


def _event(name: str, **data: Any) -> Entry:
    return "event", {"name": name, "data": data, "inside": None}
