"""How a turn is ended from outside, and what is put in order when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from typing import TYPE_CHECKING, Any, cast

from amplifier_core import events
from amplifier_core.cancellation import CancellationToken
from amplifier_core.history import interrupted_result, unanswered_calls

if TYPE_CHECKING:
    from amplifier_core.coordinator import ModuleCoordinator

logger = logging.getLogger(__name__)


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
