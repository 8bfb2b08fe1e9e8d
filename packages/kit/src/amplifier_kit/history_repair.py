"""Repair of a conversation's history, so that no provider has a reason to refuse it.

Every tool call needs one result, directly after the message that made the call, and no result may
be without its call. A history that a crash or a cancellation cut short breaks this; sent as it is,
every later request would be refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from amplifier_core.history import answers_in, calls_in, interrupted_result

__all__ = ["Repair", "repair_history"]

Stored: TypeAlias = dict[str, Any]


class Repair(NamedTuple):
    """One repair: a call was answered, a result was moved to its call, or a result was dropped."""

    kind: Literal["answered", "moved", "dropped"]
    tool_call_id: str


def repair_history(messages: list[Stored]) -> tuple[list[Stored], list[Repair]]:
    """Return `messages` as a valid history, and the repairs that were made.

    A call without a result gets one that says so; a result that is elsewhere moves to its call; a
    result without a call, or a second one, is dropped. No message is changed in place, and a valid
    history comes back as the same list.
    """
    if _is_plainly_valid(messages):
        return messages, []
    work = _Work()
    for message in messages:
        work.take(message)
    repaired = work.finish()
    if not work.repairs:
        return messages, []
    return repaired, work.repairs


def _is_plainly_valid(messages: list[Stored]) -> bool:
    """Quick check for the usual case: the messages right after each call answer it.

    False only means that the full repair has to look at it.
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
            waiting = set(calls_in(message))
        elif type(message.get("content")) is list and answers_in(message):
            return False
    return not waiting


@dataclass(eq=False)
class _Group:
    """A message with tool calls, the calls without a result, and the results as they turn up."""

    message: Stored
    missing: dict[Any, str]
    results: list[Stored] = field(default_factory=list[Stored])


class _Work:
    """A repair in progress: the messages so far, and the calls that still wait for a result."""

    def __init__(self) -> None:
        self._pieces: list[Stored | _Group] = []
        self._waiting: dict[Any, _Group] = {}
        self.repairs: list[Repair] = []

    def take(self, message: Stored) -> None:
        """Add the next message; its results go to their calls."""
        answers = answers_in(message)
        left: Stored | None = message
        if answers:
            left = self._place(message, answers)
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
            if not isinstance(piece, _Group):
                repaired.append(piece)
                continue
            repaired += [piece.message, *piece.results]
            for call_id, name in piece.missing.items():
                self.repairs.append(Repair("answered", call_id))
                repaired.append(interrupted_result(call_id, name))
        return repaired

    def _place(self, message: Stored, answers: list[Any]) -> Stored | None:
        """Put results after their calls; return the rest of the message, or None."""
        homes: dict[_Group, list[Any]] = {}
        for number, call_id in enumerate(answers):
            home = self._waiting.get(call_id)
            if home is None or call_id in answers[:number]:
                self.repairs.append(Repair("dropped", str(call_id)))
            else:
                homes.setdefault(home, []).append(call_id)
        is_whole = len(homes) == 1 and list(homes.values()) == [answers]
        for home, call_ids in homes.items():
            if len(homes) > 1 or self._pieces[-1] is not home:
                self.repairs += [Repair("moved", call_id) for call_id in call_ids]
            for call_id in call_ids:
                del self._waiting[call_id]
                del home.missing[call_id]
            home.results.append(message if is_whole else _only_results(message, call_ids))
        if is_whole or message.get("role") == "tool":
            return None
        left = _without_results(message)
        return left if left["content"] else None


def _only_results(message: Stored, call_ids: list[Any]) -> Stored:
    """Return the message with the results of these calls and of no others."""
    is_tool = message.get("role") == "tool"
    own = message.get("tool_call_id")
    wanted = list(call_ids)
    kept: list[Any] = []
    for block in _blocks(message):
        if not _is_result(block):
            if is_tool and own in call_ids:
                kept.append(block)
            continue
        call_id = block.get("tool_call_id")
        # A tool message is itself the result of `own`; only its first block may repeat that.
        is_repeated = is_tool and call_id == own and any(map(_is_result, kept))
        if call_id in wanted and not is_repeated:
            wanted.remove(call_id)
            kept.append(block)
    result = {**message, "content": kept}
    if is_tool:
        result["tool_call_id"] = own if own in call_ids else call_ids[0]
    return result


def _without_results(message: Stored) -> Stored:
    return {**message, "content": [block for block in _blocks(message) if not _is_result(block)]}


def _blocks(message: Stored) -> list[Any]:
    content: Any = message.get("content")
    if type(content) is list:
        return cast("list[Any]", content)
    return []


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and cast("Stored", block).get("type") == "tool_result"
