"""Which tool calls of a history are answered or open, and closing them when a turn ends."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from amplifier_core import events
from amplifier_core.cancellation import CancellationToken

if TYPE_CHECKING:
    from amplifier_core.coordinator import ModuleCoordinator

__all__ = ["INTERRUPTED", "answers_in", "calls_in", "interrupted_result", "unanswered_calls"]

logger: logging.Logger = logging.getLogger(__name__)

INTERRUPTED = (
    "[interrupted] This call was cut short before its result was recorded. "
    "It may or may not have taken effect; check before you repeat it."
)

Stored: TypeAlias = dict[str, Any]

_CALL_BLOCKS = frozenset({"tool_call", "tool_use"})


def interrupted_result(call_id: str, name: str) -> Stored:
    """Return the result of a call whose outcome is unknown."""
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
    """Return the calls of a message: tool names by id, from its blocks and its `tool_calls`."""
    if message.get("role") != "assistant":
        return {}
    found: dict[Any, Any] = {}
    for call in message.get("tool_calls") or ():
        fields = cast("Stored", call) if isinstance(call, dict) else _fields_of(call)
        function: Stored = fields.get("function") or {}
        found[fields.get("id")] = function.get("name") or fields.get("name") or fields.get("tool")
    for block in _blocks_of(message, _CALL_BLOCKS):
        found.setdefault(block.get("id"), block.get("name"))
    # A call without an id can have no result, so it is never open.
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


@asynccontextmanager
async def interruptible(token: CancellationToken) -> AsyncGenerator[None]:
    """Interrupt the running task when an immediate stop is requested, from any thread.

    Code inside gets a CancelledError where it waits; the task is not cancelled afterwards. If the
    caller was cancelled as well, which code inside cannot distinguish, that is raised in the end.
    """
    task = cast("asyncio.Task[Any]", asyncio.current_task())
    cancelled_before = task.cancelling()
    loop = asyncio.get_running_loop()
    interrupts = 0
    is_over = False

    def interrupt() -> None:
        # A request may come from another thread or a signal handler.
        loop.call_soon_threadsafe(cancel)

    def cancel() -> None:
        nonlocal interrupts
        if not is_over:
            interrupts += 1
            task.cancel()

    token.add_interrupt(interrupt)
    if token.is_immediate:
        interrupt()
    try:
        yield
    finally:
        is_over = True
        token.remove_interrupt(interrupt)
        if interrupts:
            with contextlib.suppress(asyncio.CancelledError):
                # A cancellation that interrupted nothing is still pending: have it delivered here.
                await asyncio.sleep(0)
            for _ in range(interrupts):
                task.uncancel()
            if task.cancelling() > cancelled_before:
                raise asyncio.CancelledError


async def close_history(coordinator: ModuleCoordinator) -> None:
    """Answer the open calls of a turn that was interrupted, so that the history stays valid.

    Only where a result belongs: after the last message of the model and other results. Anything
    else is left to the repair before the next request.
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
        # A memory that fails here must not hide the error that ended the turn.
        logger.exception("history not closed session=%s", coordinator.session_id)
        return
    if waiting:
        await coordinator.hooks.emit(
            events.CONTEXT_REPAIRED,
            {"repairs": [{"kind": "answered", "tool_call_id": call_id} for call_id in waiting]},
        )


def _is_result(message: dict[str, Any]) -> bool:
    return message.get("role") == "tool"
