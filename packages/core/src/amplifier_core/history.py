"""Which tool calls a history makes, answers and leaves open; and closing them when a turn ends."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from amplifier_core import events
from amplifier_core.cancellation import CancellationToken

if TYPE_CHECKING:
    from amplifier_core.coordinator import ModuleCoordinator

__all__ = ["INTERRUPTED", "answers_in", "calls_in", "interrupted_result", "unanswered_calls"]

logger = logging.getLogger(__name__)

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


class Interruption:
    """Interrupts the task that runs a turn when an immediate stop is requested.

    The request may come from any task, thread or signal handler. The turn sees a CancelledError
    where it waits; the caller's own task is left uncancelled.
    """

    __slots__ = ("_before", "_fired", "_loop", "_task", "_token", "_watching")

    def __init__(self, token: CancellationToken) -> None:
        self._token = token
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._before = self._task.cancelling()
        self._loop = asyncio.get_running_loop()
        self._fired = 0
        self._watching = True
        token.add_interrupt(self)
        if token.is_immediate:
            self()

    def __call__(self) -> None:
        """Take a request to stop immediately."""
        self._loop.call_soon_threadsafe(self._fire)

    def _fire(self) -> None:
        if self._watching:
            self._fired += 1
            self._task.cancel()

    def end(self) -> bool:
        """End the watch; True when an interruption was under way and is to be settled."""
        self._watching = False
        self._token.remove_interrupt(self)
        return self._fired > 0

    async def settle(self) -> None:
        """See to it that nothing of the interruption outlives the turn.

        Raises:
            CancelledError: the caller was cancelled as well, which the turn could not tell apart.
        """
        with contextlib.suppress(asyncio.CancelledError):
            # A cancellation that found nothing to interrupt is still waiting to be delivered.
            await asyncio.sleep(0)
        for _ in range(self._fired):
            self._task.uncancel()
        if self._task.cancelling() > self._before:
            raise asyncio.CancelledError


async def close_history(coordinator: ModuleCoordinator) -> None:
    """Answer the calls that a turn ended in the middle of, so that the history stays valid.

    Only where an answer belongs: after the last message of the model and other results. Anywhere
    else it is the repair before the next request that puts things right.
    """
    context = coordinator.get("context")
    if context is None:
        return  # the turn was refused for the lack of it
    try:
        messages: list[dict[str, Any]] = await context.get_messages()
        results = list(itertools.takewhile(_is_result, reversed(messages)))
        last = messages[-len(results) - 1 :]
        waiting = unanswered_calls(last)
        for call_id, name in waiting.items():
            await context.add_message(interrupted_result(call_id, name))
    except Exception:
        logger.exception("history not closed session=%s", coordinator.session_id)
        return
    if waiting:
        await coordinator.hooks.emit(
            events.CONTEXT_REPAIRED,
            {"repairs": [{"kind": "answered", "tool_call_id": call_id} for call_id in waiting]},
        )


def _is_result(message: dict[str, Any]) -> bool:
    return message.get("role") == "tool"
