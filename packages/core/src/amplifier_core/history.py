"""A conversation's history on its way to a provider: repaired, and validated once per message.

Every tool call needs one result, directly behind the message that made the call, and no result
may stand without its call. A history that a crash or a cancellation cut short breaks this; sent as
it is, every later request would be refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from pydantic import TypeAdapter

from amplifier_core.message_models import Message

__all__ = [
    "INTERRUPTED",
    "Repair",
    "RequestHistory",
    "answers_in",
    "calls_in",
    "interrupted_result",
    "repair_history",
    "unanswered_calls",
]

INTERRUPTED = (
    "[interrupted] This call was cut short before its result was recorded. "
    "It may or may not have taken effect; check before you repeat it."
)

Stored: TypeAlias = dict[str, Any]

_NO_BLOCKS: list[Any] = []
_CALL_BLOCKS = frozenset({"tool_call", "tool_use"})


class Repair(NamedTuple):
    """One thing that was put right: a call answered, a result moved to its call, or one dropped."""

    kind: Literal["answered", "moved", "dropped"]
    tool_call_id: str


class _Group:
    """A message with tool calls, and their results as they turn up."""

    __slots__ = ("message", "missing", "results")

    def __init__(self, message: Stored, calls: dict[Any, str]) -> None:
        self.message = message
        self.missing = calls
        self.results: list[Stored] = []


def repair_history(messages: list[Stored]) -> tuple[list[Stored], list[Repair]]:
    """Return `messages` as a valid history, and what had to be done for it.

    A call without a result gets one that says so; a result that stands elsewhere moves to its
    call; a result without a call, or a second one, is dropped. No message is changed in place,
    and a valid history comes back as the same list.
    """
    if _is_plainly_valid(messages):
        return messages, []
    repair = _Repairing()
    for message in messages:
        repair.take(message)
    repaired = repair.finish()
    return (repaired, repair.repairs) if repair.repairs else (messages, [])


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


def _is_plainly_valid(messages: list[Stored]) -> bool:
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
            waiting = _ids_called(message)
        elif type(message.get("content")) is list and answers_in(message):
            return False
    return not waiting


def _ids_called(message: Stored) -> set[Any]:
    ids: set[Any] = set()
    try:
        for block in _blocks(message):
            if block["type"] in _CALL_BLOCKS:
                ids.add(block["id"])
        for call in message.get("tool_calls") or ():
            ids.add(call["id"])
    except (KeyError, TypeError):
        return set(calls_in(message))  # in other shapes, or without ids
    return ids


class _Repairing:
    """A repair in progress: the messages so far, and the calls that still wait for a result."""

    __slots__ = ("_pieces", "_waiting", "repairs")

    def __init__(self) -> None:
        self._pieces: list[Stored | _Group] = []
        self._waiting: dict[Any, _Group] = {}
        self.repairs: list[Repair] = []

    def take(self, message: Stored) -> None:
        """Put the next message where it belongs."""
        answers = answers_in(message)
        left = self._place(message, answers) if answers else message
        if left is None:
            return
        calls = calls_in(left)
        if calls:
            group = _Group(left, calls)
            self._waiting.update(dict.fromkeys(calls, group))
            self._pieces.append(group)
        else:
            self._pieces.append(left)

    def finish(self) -> list[Stored]:
        """Return the whole history, with an answer for every call."""
        repaired: list[Stored] = []
        for piece in self._pieces:
            if isinstance(piece, _Group):
                self.repairs += [Repair("answered", call_id) for call_id in piece.missing]
                answers = [interrupted_result(*call) for call in piece.missing.items()]
                repaired += [piece.message, *piece.results, *answers]
            else:
                repaired.append(piece)
        return repaired

    def _place(self, message: Stored, answers: list[Any]) -> Stored | None:
        """Put results behind their calls; returns what else the message holds."""
        homes: dict[_Group, list[Any]] = {}
        for number, call_id in enumerate(answers):
            home = self._waiting.get(call_id)
            if home is None or call_id in answers[:number]:
                self.repairs.append(Repair("dropped", str(call_id)))
            else:
                homes.setdefault(home, []).append(call_id)
        whole = len(homes) == 1 and list(homes.values()) == [answers]
        for home, call_ids in homes.items():
            if len(homes) > 1 or self._pieces[-1] is not home:
                self.repairs += [Repair("moved", call_id) for call_id in call_ids]
            for call_id in call_ids:
                del self._waiting[call_id], home.missing[call_id]
            home.results.append(message if whole else _only_results(message, call_ids))
        left = None if whole or message.get("role") == "tool" else _without_results(message)
        return left if left and left["content"] else None


def calls_in(message: Stored) -> dict[Any, str]:
    """Return the calls a message makes: tool names by id, from either place they are kept in."""
    if message.get("role") != "assistant":
        return {}
    found: dict[Any, Any] = {}
    for call in message.get("tool_calls") or ():
        fields = cast("Stored", call) if isinstance(call, dict) else _fields_of(call)
        function: Stored = fields.get("function") or {}
        found[fields.get("id")] = function.get("name") or fields.get("name") or fields.get("tool")
    for block in _blocks(message):
        if _type_of(block) in _CALL_BLOCKS:
            found.setdefault(block.get("id"), block.get("name"))
    # A call without an id can have no result; there is nothing to repair about it.
    return {call_id: str(name) for call_id, name in found.items() if call_id}


def answers_in(message: Stored) -> list[Any]:
    """Return the ids of the calls a message answers; a tool message and its own block are one."""
    role = message.get("role")
    if role == "assistant" or role == "system":
        return []
    found = [block.get("tool_call_id") for block in _blocks(message) if _is_result(block)]
    own = message.get("tool_call_id")
    if role != "tool" or (found and own is None):
        return found
    return [own, *found[1:]] if found[:1] == [own] else [own, *found]


def _only_results(message: Stored, call_ids: list[Any]) -> Stored:
    """Return the message with the results of these calls and of no others."""
    is_tool, own, wanted = message.get("role") == "tool", message.get("tool_call_id"), [*call_ids]
    kept: list[Any] = []
    for block in _blocks(message):
        call_id = block.get("tool_call_id") if _is_result(block) else own
        # A tool message is its own result; as a block it may only repeat it at the beginning.
        repeated = is_tool and call_id == own and any(map(_is_result, kept))
        if not _is_result(block):
            kept += [block] if is_tool and own in call_ids else []
        elif call_id in wanted and not repeated:
            wanted.remove(call_id)
            kept.append(block)
    home = {"tool_call_id": own if own in call_ids else call_ids[0]} if is_tool else {}
    return {**message, **home, "content": kept}


def _without_results(message: Stored) -> Stored:
    return {**message, "content": [block for block in _blocks(message) if not _is_result(block)]}


def _blocks(message: Stored) -> list[Any]:
    content: Any = message.get("content")
    return content if type(content) is list else _NO_BLOCKS  # pyright: ignore[reportUnknownVariableType] - stored by others


def _type_of(block: Any) -> Any:
    return cast("Stored", block).get("type") if isinstance(block, dict) else None


def _is_result(block: Any) -> bool:
    return _type_of(block) == "tool_result"


def _fields_of(call: Any) -> Stored:
    return {key: getattr(call, key, None) for key in ("id", "name", "tool", "function")}


# How many of the newest messages are looked into for fields that were set.
_LOOKED_INTO = 4


class RequestHistory:
    """Makes provider messages out of stored ones, doing again only what is new.

    A session asks once per model call, each time with the same messages and a few more behind.
    Those are known by identity, or else by value, and neither repaired nor validated again. A field
    that somebody sets in a message is noticed among the newest four; to change an older message, or
    what a field holds, put another object there.
    """

    __slots__ = ("_known", "_messages", "_newest", "_repairs", "_stored")

    def __init__(self) -> None:
        self._known = 0
        self._stored: list[Stored] = []
        self._newest: list[Stored] = []
        self._messages: list[Message] = []
        self._repairs: list[Repair] = []

    def prepare(self, stored: list[Stored]) -> tuple[list[Message], list[Repair]]:
        """Return `stored` as a valid list of messages, and the repairs not reported before."""
        known, newest, mine = self._known, self._newest, self._stored
        new = stored[known:]
        # Lists of one length are compared by address first, and without a copy.
        mine[known:] = new
        if stored != mine or stored[known - len(newest) : known] != newest:
            # Forgotten at once: what follows may fail.
            self._known = known = 0
            new, newest, self._stored = stored, [], stored.copy()
        repaired, repairs = repair_history(new)
        if known and repairs:
            # A result among the new messages may belong to a call among the old ones.
            known, new, (repaired, repairs) = 0, stored, repair_history(stored)
        fresh = _message_validator()(repaired)
        if known:
            self._messages += fresh
        else:
            self._messages = fresh
            reported, self._repairs = self._repairs, repairs
            if repairs:
                repairs = [repair for repair in repairs if repair not in reported]
        newest += map(dict, new[-_LOOKED_INTO:])
        del newest[:-_LOOKED_INTO]
        self._known, self._newest = len(stored), newest
        return self._messages.copy(), repairs


@functools.cache
def _message_validator() -> Callable[[list[Stored]], list[Message]]:
    # Without the adapter's own wrapper, which would cost as much as validating a short message.
    return TypeAdapter(list[Message]).validator.validate_python
