"""Ask the user: the question goes to the scrollback, its options are drawn above the input."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from time import monotonic
from typing import Any, Literal

from amplifier_cli.chat.live_view import OpenQuestion, Scene
from amplifier_cli.question_pages import NEXT_PAGE, denial, pages_of, ringing
from amplifier_cli.render.pieces import Decision, Shown
from amplifier_core.approval import ApprovalTimeoutError
from amplifier_journal.readings.items import Question, notice_of


class TerminalApprovals:
    """The kernel's approval system at a terminal; one question at a time, in order.

    An infinite `timeout` waits for the user. The bell rings when a question is shown, and once
    more after a minute.
    """

    waits_for_user = True

    def __init__(
        self,
        scene: Scene,
        put: Callable[[Shown], None],
        size: Callable[[], tuple[int, int]] = lambda: (80, 24),
        ring: Callable[[], None] = lambda: None,
    ) -> None:
        """`size` returns the columns and rows of the screen; `ring` rings its bell."""
        self._scene = scene
        self._put = put
        self._size = size
        self._ring = ring
        self._turn = asyncio.Lock()

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Show `prompt` and return the option that the user chooses.

        Raises:
            ApprovalTimeoutError: nobody answered within `timeout` seconds.
        """
        loop = asyncio.get_running_loop()
        question = Question(prompt, tuple(options))
        decision = ""
        asks = OpenQuestion(question, math.inf, loop.create_future(), denial(question.options))
        self._scene.questions.append(asks)
        try:
            # The lock first: the time limit begins when the question is shown.
            async with (
                self._turn,
                asyncio.timeout(None if math.isinf(timeout) else timeout),
            ):
                asks.until = monotonic() + timeout
                self._scene.begin("asks you")
                with ringing(self._ring):
                    decision = await self._answer(asks)
        except TimeoutError:
            decision = "no answer in time"
            raise ApprovalTimeoutError(f"nobody answered within {timeout:g} s") from None
        except asyncio.CancelledError:
            decision = "withdrawn"
            raise
        finally:
            self._scene.questions.remove(asks)
            self._close(decision)
        return decision

    async def _answer(self, asks: OpenQuestion) -> str:
        """Show the question, page by page if it has several, and return the chosen option."""
        question = asks.question
        pages = pages_of(question.prompt, *self._size())
        deny = question.options[denial(question.options)]
        for page in pages[:-1]:
            if await self._show(asks, Question(page, (NEXT_PAGE, deny))) != NEXT_PAGE:
                return deny
        if len(pages) == 1:
            last = question
        else:
            last = Question(pages[-1], question.options)
        return await self._show(asks, last)

    async def _show(self, asks: OpenQuestion, shown: Question) -> str:
        asks.question = shown
        asks.answer = asyncio.get_running_loop().create_future()
        asks.chosen = denial(shown.options)
        # Keys answer a page only after it was drawn.
        asks.drawn_at = None
        self._put(shown)
        return await asks.answer

    def _close(self, decision: str) -> None:
        self._put(Decision(decision))
        now = monotonic()
        for running in self._scene.tools.values():
            if not running.written:
                # A tool's time does not include the time that the user took to answer.
                running.began = now
        self._scene.begin("working")


class TerminalNotices:
    """The kernel's display system in a chat: one line per message."""

    def __init__(self, put: Callable[[Shown], None]) -> None:
        self._put = put

    def show_message(self, message: str, level: Any, source: str = "hook") -> None:
        """Show a message without waiting."""
        self._put(notice_of(message, level, source))
