"""Run turns one after another: prompts typed while one runs are queued, and none is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

from amplifier_cli.chat.live_view import Scene
from amplifier_cli.chat.observer import Observer
from amplifier_cli.render.pieces import Ending, Shown
from amplifier_journal.readings.items import Answer, Notice, Prompt, TurnEnd
from amplifier_kit.explained_error import ExplainedError

logger = logging.getLogger(__name__)


class Conversation:
    """Sends prompts to a live session and keeps the queue of waiting ones."""

    def __init__(
        self,
        live: Any,
        scene: Scene,
        observer: Observer,
        put: Callable[[Shown], None],
        answered: Callable[[], None] = lambda: None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """`answered` is called after each turn that was neither stopped nor failed.

        `ended` is called after the last of the turns that were queued.
        """
        self.live = live
        self._answered = answered
        self._ended = ended
        self.observer = observer
        self._scene = scene
        self._put = put
        self._turns: asyncio.Task[None] | None = None
        self._is_stopping = False

    @property
    def is_running(self) -> bool:
        """Whether a turn runs."""
        return self._turns is not None and not self._turns.done()

    def say(self, text: str) -> None:
        """Send `text`, after what is queued already."""
        self._scene.queue.append(text)
        self._scene.is_held = False
        self._go_on()
        self._scene.changed()

    def release(self) -> None:
        """Send what was held back."""
        self._scene.is_held = False
        self._go_on()

    def steer(self, text: str) -> bool:
        """Send `text` into the running turn; False if no turn runs or the loop cannot take it."""
        steer = self.live.session.coordinator.get_capability("session.steer")
        if steer is None or not self.is_running:
            return False
        steer(text)
        return True

    def stop(self) -> bool:
        """Stop the running turn immediately and hold the queue; False if nothing runs."""
        if not self.is_running or self._is_stopping:
            return False
        self._is_stopping = True
        self._scene.is_held = bool(self._scene.queue)
        self._scene.begin("stopping")
        self.live.session.coordinator.cancellation.request_immediate()
        return True

    def take_back(self) -> list[str]:
        """Empty the queue and return its texts."""
        texts, self._scene.queue[:] = list(self._scene.queue), []
        self._scene.is_held = False
        self._scene.changed()
        return texts

    async def settle(self) -> None:
        """Wait until no turn runs."""
        if self._turns is not None:
            await asyncio.wait([self._turns])

    def _go_on(self) -> None:
        if not self.is_running and self._scene.queue:
            self._turns = asyncio.create_task(self._run_turns())

    async def _run_turns(self) -> None:
        while self._scene.queue and not self._scene.is_held:
            text = self._scene.queue.pop(0)
            if not await self._run_turn(text):
                # The queued prompts assume that this turn succeeded; the user decides about them.
                self._scene.is_held = bool(self._scene.queue)
        self._ended()
        self._scene.changed()

    async def _run_turn(self, text: str) -> bool:
        observer = self.observer
        self._put(Prompt(text))
        self._scene.attended_at = monotonic()
        observer.begin_turn()
        ending: Shown | None = None
        try:
            answer = await self.live.execute(text)
            cancelled = self._is_stopping
        except asyncio.CancelledError:
            # Raised by the turn if the user stopped it, else by whoever cancels this task.
            if not self._is_stopping:
                raise
            answer = ""
            cancelled = True
        except Exception as error:
            logger.debug("turn failed", exc_info=True)
            answer = ""
            cancelled = False
            ending = _failure(error)
        finally:
            self._is_stopping = False
            await observer.end_turn()
        if cancelled:
            await self._keep_partial()
            ending = TurnEnd("cancelled")
        # A streamed answer is on the screen already.
        elif answer.strip() and answer.strip() not in observer.said:
            self._put(Answer(answer))
        if ending is not None:
            self._put(ending)
            return False
        self._answered()
        return True

    async def _keep_partial(self) -> None:
        """Add the partial answer to the context, so that the model knows what the user has read."""
        if self.observer.partial.strip():
            await remember_partial(self.live, self.observer.partial)


async def remember_partial(live: Any, text: str) -> None:
    """Add a partial answer to the context, marked as interrupted."""
    message = {"role": "assistant", "content": text, "metadata": {"interrupted": True}}
    await live.session.coordinator.get("context").add_message(message)


def _failure(error: Exception) -> Shown:
    if isinstance(error, ExplainedError):
        fix = "" if error.fix in error.why else f"Next: {error.fix}"
        parts = (error.message, error.why, fix)
        return Ending("\n".join(part for part in parts if part), "error")
    return TurnEnd("error", error={"type": type(error).__name__, "message": str(error)})


def notice(text: str) -> Notice:
    """Return a message of the chat itself."""
    return Notice(text, "info")
