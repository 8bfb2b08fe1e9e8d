"""Which calls a conversation's history makes, which it answers, and which it leaves open.

Every tool call needs one result, directly after the message that made the call. A turn that was cut
short leaves calls without one; the kernel answers them when the turn ends.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias, cast

__all__ = ["INTERRUPTED", "answers_in", "calls_in", "interrupted_result", "unanswered_calls"]

INTERRUPTED = (
    "[interrupted] This call was cut short before its result was recorded. "
    "It may or may not have taken effect; check before you repeat it."
)

Stored: TypeAlias = dict[str, Any]

_CALL_BLOCKS = frozenset({"tool_call", "tool_use"})


def interrupted_result(call_id: str, name: str) -> Stored:
    """Return the result of a call whose outcome nobody knows."""
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": INTERRUPTED}


def unanswered_calls(messages: list[Stored]) -> dict[str, str]:
    """Return the calls that have no result yet: tool names by call id, in call order."""
    waiting: dict[Any, str] = {}
    for message in messages:
        for call_id in answers_in(message):
            waiting.pop(call_id, None)
        waiting.update(calls_in(message))
    return waiting


def calls_in(message: Stored) -> dict[Any, str]:
    """Return the calls a message makes: tool names by id, from either place they are kept in."""
    if message.get("role") != "assistant":
        return {}
    found: dict[Any, Any] = {}
    for call in message.get("tool_calls") or ():
        fields = cast("Stored", call) if isinstance(call, dict) else _fields_of(call)
        function: Stored = fields.get("function") or {}
        found[fields.get("id")] = function.get("name") or fields.get("name") or fields.get("tool")
    for block in _blocks_of(message, _CALL_BLOCKS):
        found.setdefault(block.get("id"), block.get("name"))
    # A call without an id can have no result; there is nothing to repair about it.
    return {call_id: str(name) for call_id, name in found.items() if call_id}


def answers_in(message: Stored) -> list[Any]:
    """Return the ids of the calls a message answers; a tool message and its own block are one."""
    role = message.get("role")
    if role in ("assistant", "system"):
        return []
    found = [block.get("tool_call_id") for block in _blocks_of(message, {"tool_result"})]
    own = message.get("tool_call_id")
    if role != "tool" or (found and own is None):
        return found
    if found[:1] == [own]:
        return found
    return [own, *found]


def _blocks_of(message: Stored, types: Collection[str]) -> list[Stored]:
    """Return the content blocks of these types."""
    content: Any = message.get("content")
    if type(content) is not list:
        return []
    blocks = [cast("Stored", each) for each in cast("list[Any]", content) if isinstance(each, dict)]
    return [block for block in blocks if block.get("type") in types]


def _fields_of(call: Any) -> Stored:
    return {key: getattr(call, key, None) for key in ("id", "name", "tool", "function")}
