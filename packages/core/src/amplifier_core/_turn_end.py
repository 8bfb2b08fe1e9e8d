"""How a turn is ended from outside, and what is put in order when it ends."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from amplifier_core import events
from amplifier_core.cancellation import CancellationToken
from amplifier_core.history import interrupted_result, unanswered_calls

if TYPE_CHECKING:
    from amplifier_core.coordinator import ModuleCoordinator

logger = logging.getLogger(__name__)


class Interruption:
    """Interrupts the task that runs a turn when an immediate stop is requested meanwhile.

    The request may come from any task, thread or signal handler. The turn sees a CancelledError
    where it waits; the caller's own task is left uncancelled.
    """

    __slots__ = ("_fired", "_loop", "_remove", "_task", "_watching")

    def __init__(self, token: CancellationToken) -> None:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._fired = False
        self._watching = True
        self._remove = token.on_immediate(self._request)

    def _request(self) -> None:
        self._loop.call_soon_threadsafe(self._fire)

    def _fire(self) -> None:
        if self._watching and self._task is not None:
            self._fired = True
            self._task.cancel()

    def end(self) -> bool:
        """End the watch; True when an interruption was under way and is to be settled."""
        self._watching = False
        self._remove()
        return self._fired

    async def settle(self) -> None:
        """See to it that nothing of the interruption outlives the turn."""
        task = self._task
        try:
            # A cancellation that found nothing to interrupt is still waiting to be delivered.
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if task is None or task.cancelling() > 1:
                raise
        if task is not None:
            task.uncancel()


async def close_history(coordinator: ModuleCoordinator) -> None:
    """Answer the calls that a turn ended in the middle of, so that the history stays valid."""
    context: Any = coordinator.get("context")
    try:
        messages = await context.get_messages()
        waiting = unanswered_calls(messages)
        # Behind anything but other results an answer would stand in the wrong place; there the
        # repair before the next request puts it right.
        after_call = [m.get("role") for m in messages[_last_call(messages) + 1 :]]
        if not waiting or any(role != "tool" for role in after_call):
            return
        for call_id, name in waiting.items():
            await context.add_message(interrupted_result(call_id, name))
    except Exception:
        logger.exception("history not closed session=%s", coordinator.session_id)
        return
    await coordinator.hooks.emit(
        events.CONTEXT_REPAIRED,
        {"repairs": [{"kind": "answered", "tool_call_id": call_id} for call_id in waiting]},
    )


def _last_call(messages: list[dict[str, Any]]) -> int:
    return max(
        (index for index, message in enumerate(messages) if message.get("role") == "assistant"),
        default=-1,
    )
