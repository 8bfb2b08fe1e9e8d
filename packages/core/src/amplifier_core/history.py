"""A conversation's history on its way to a provider: repaired, and validated once per message.

Every tool call needs one result, directly behind the message that made the call, and no result
may stand without its call. A history that a crash or a cancellation cut short breaks this; sent as
it is, every later request would be refused.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, cast

from pydantic import TypeAdapter

from amplifier_core.message_models import Message

__all__ = ["INTERRUPTED", "Repair", "RequestHistory", "repair_history", "unanswered_calls"]

INTERRUPTED = (
    "[interrupted] This call was cut short before its result was recorded. "
    "It may or may not have taken effect; check before you repeat it."
)

_CALL_BLOCKS = frozenset({"tool_call", "tool_use"})


class Repair(NamedTuple):
    """One thing that was put right: a call answered, a result moved to its call, or one dropped."""

    kind: Literal["answered", "moved", "dropped"]
    tool_call_id: str


class _Group:
    """A message with tool calls, and their results as they turn up."""

    __slots__ = ("message", "missing", "results")

    def __init__(self, message: dict[str, Any], calls: dict[str, str]) -> None:
        self.message = message
        self.missing = calls
        self.results: list[dict[str, Any]] = []


def repair_history(
    messages: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[Repair]]:
    """Return `messages` as a valid history, and what had to be done for it.

    A call without a result gets one that says so; a result that stands elsewhere moves to its
    call; a result without a call, or a second one, is dropped. No message is changed in place,
    and a valid history comes back as the same list.
    """
    if _is_plainly_valid(messages):
        return messages, []
    repairs: list[Repair] = []
    pieces: list[dict[str, Any] | _Group] = []
    waiting: dict[str, _Group] = {}
    for message in messages:
        results = _results_in(message)
        if results and _place_results(message, results, pieces, waiting, repairs):
            continue
        calls = _calls_in(message)
        if calls:
            group = _Group(message, calls)
            waiting.update(dict.fromkeys(calls, group))
            pieces.append(group)
        else:
            pieces.append(_without_results(message, results) if results else message)
    repaired: list[dict[str, Any]] = []
    for piece in pieces:
        if isinstance(piece, _Group):
            repairs += [Repair("answered", call_id) for call_id in piece.missing]
            answers = [interrupted_result(*call) for call in piece.missing.items()]
            repaired += [piece.message, *piece.results, *answers]
        else:
            repaired.append(piece)
    return (repaired, repairs) if repairs else (messages, repairs)


def _is_plainly_valid(messages: list[dict[str, Any]]) -> bool:
    """Whether every call is answered by the messages right behind it; the usual case, quickly.

    False only means that it takes a closer look.
    """
    waiting: set[Any] = set()
    for message in messages:
        role = message.get("role")
        if role == "tool":
            call_id = message.get("tool_call_id")
            if call_id not in waiting or type(message.get("content")) is list:
                return False
            waiting.remove(call_id)
        elif waiting:
            return False
        elif role == "assistant":
            if "tool_calls" in message or type(message.get("content")) is list:
                waiting = set(_calls_in(message))
        elif type(message.get("content")) is list and _results_in(message):
            return False
    return not waiting


def _place_results(
    message: dict[str, Any],
    results: list[str],
    pieces: list[dict[str, Any] | _Group],
    waiting: dict[str, _Group],
    repairs: list[Repair],
) -> bool:
    """Put a message with results behind its call; False when something else is left of it."""
    orphans = [call_id for call_id in results if call_id not in waiting]
    answered = [call_id for call_id in results if call_id in waiting]
    repairs += [Repair("dropped", call_id) for call_id in orphans]
    if not answered:
        return message.get("role") == "tool" or not _without_results(message, orphans)["content"]
    home = waiting[answered[0]]
    if pieces[-1] is not home:
        repairs += [Repair("moved", call_id) for call_id in answered]
    for call_id in answered:
        waiting.pop(call_id).missing.pop(call_id)
    home.results.append(_without_results(message, orphans) if orphans else message)
    return True


def interrupted_result(call_id: str, name: str) -> dict[str, Any]:
    """Return the result of a call whose outcome nobody knows."""
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": INTERRUPTED}


def unanswered_calls(messages: list[dict[str, Any]]) -> dict[str, str]:
    """Return the calls that have no result yet: tool names by call id, in call order."""
    waiting: dict[str, str] = {}
    for message in messages:
        for call_id in _results_in(message):
            waiting.pop(call_id, None)
        waiting.update(_calls_in(message))
    return waiting


def _calls_in(message: dict[str, Any]) -> dict[str, str]:
    """Return the calls a message makes: tool names by id, from either place they are kept in."""
    if message.get("role") != "assistant":
        return {}
    found: dict[Any, Any] = {}
    for call in message.get("tool_calls") or ():
        fields = cast("dict[str, Any]", call) if isinstance(call, dict) else _fields_of(call)
        function: dict[str, Any] = fields.get("function") or {}
        found[fields.get("id")] = function.get("name") or fields.get("name") or fields.get("tool")
    for block in _blocks(message):
        if block.get("type") in _CALL_BLOCKS:
            found.setdefault(block.get("id"), block.get("name"))
    # A call without an id can have no result; there is nothing to repair about it.
    return {call_id: str(name) for call_id, name in found.items() if call_id}


def _results_in(message: dict[str, Any]) -> list[str]:
    """Return the ids of the calls a message answers."""
    role = message.get("role")
    if role == "assistant" or role == "system":
        return []
    ids = [message.get("tool_call_id")] if role == "tool" else []
    ids += [block.get("tool_call_id") for block in _blocks(message) if _is_result(block)]
    return list(dict.fromkeys(str(each) for each in ids if each is not None or role == "tool"))


def _without_results(message: dict[str, Any], call_ids: list[str]) -> dict[str, Any]:
    content = [
        block
        for block in _blocks(message)
        if not (_is_result(block) and str(block.get("tool_call_id")) in call_ids)
    ]
    return {**message, "content": content}


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if type(content) is not list:
        return []
    return [block for block in cast("list[Any]", content) if isinstance(block, dict)]


def _is_result(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_result"


def _fields_of(call: Any) -> dict[str, Any]:
    return {key: getattr(call, key, None) for key in ("id", "name", "tool", "function")}


class RequestHistory:
    """Makes provider messages out of stored ones, doing again only what is new.

    A session asks once per model call, each time with the same messages and a few more behind.
    What was checked before and has not changed since (compared by value, against a copy) is
    neither repaired nor validated again.
    """

    __slots__ = ("_checked", "_messages", "_repairs")

    def __init__(self) -> None:
        self._checked: list[dict[str, Any]] = []
        self._messages: list[Message] = []
        self._repairs: list[Repair] = []

    def prepare(self, stored: list[dict[str, Any]]) -> tuple[list[Message], list[Repair]]:
        """Return `stored` as a valid list of messages, and the repairs not reported before."""
        known = len(self._checked)
        if stored[:known] != self._checked:
            known = 0
        repaired, repairs = repair_history(stored[known:])
        if known and repairs:
            # A result among the new messages may belong to a call among the old ones.
            known, (repaired, repairs) = 0, repair_history(stored)
        if known == 0:
            self._checked, self._messages = [], []
            reported, self._repairs = self._repairs, repairs
            repairs = [repair for repair in repairs if repair not in reported]
        self._checked += [_snapshot(message) for message in stored[known:]]
        self._messages += _to_messages().validate_python(repaired)
        return self._messages.copy(), repairs


@functools.cache
def _to_messages() -> TypeAdapter[list[Message]]:
    return TypeAdapter(list[Message])


def _snapshot(message: dict[str, Any]) -> dict[str, Any]:
    """Return a copy to compare with later, as deep as validation copies; the rest stays shared."""
    copy = message.copy()
    content, metadata = copy.get("content"), copy.get("metadata")
    if type(content) is list:
        copy["content"] = _deep_copy(content)
    if type(metadata) is dict:
        copy["metadata"] = metadata.copy()
    return copy


def _deep_copy(container: Any) -> Any:
    copy = container.copy()
    entries = container.items if type(container) is dict else lambda: enumerate(container)
    for key, value in cast("Iterable[tuple[Any, Any]]", entries()):
        if type(value) is dict or type(value) is list:
            copy[key] = _deep_copy(value)
    return copy
