"""Asks the person: the whole question goes to the scrollback, the options wait above the input."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from time import monotonic
from typing import Any, Literal

from amplifier_cli.chat.scene import Keep, OpenQuestion, Scene
from amplifier_cli.question_pages import NEXT_PAGE, denial, pages_of, ringing
from amplifier_cli.render.items import Decision, Item, Notice, Question
from amplifier_core.approval import ApprovalTimeoutError


class TerminalApprovals:
    """The kernel's approval system at a terminal; one question at a time, in their order.

    An endless `timeout` waits for the user. The bell rings when a question is shown, and once
    more after a minute.
    """

    waits_for_user = True

    def __init__(
        self,
        scene: Scene,
        put: Callable[[Item], None],
        keep: Keep,
        size: Callable[[], tuple[int, int]] = lambda: (80, 24),
        ring: Callable[[], None] = lambda: None,
    ) -> None:
        """`size` says how many columns and rows the screen has; `ring` rings its bell."""
        self._scene = scene
        self._put = put
        self._keep = keep
        self._size = size
        self._ring = ring
        self._turn = asyncio.Lock()

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Show `prompt` and return the option that the person takes.

        Raises:
            ApprovalTimeoutError: nobody answered within `timeout` seconds.
        """
        loop = asyncio.get_running_loop()
        question = Question(prompt, list(options))
        asks = OpenQuestion(
            question, monotonic() + timeout, loop.create_future(), denial(question.options)
        )
        self._scene.questions.append(asks)
        try:
            async with asyncio.timeout(None if math.isinf(timeout) else timeout), self._turn:
                self._keep({"prompt": prompt, "options": question.options})
                self._scene.begin("asks you")
                with ringing(self._ring):
                    question.decision = await self._answer(asks)
        except TimeoutError:
            question.decision = "no answer in time"
            raise ApprovalTimeoutError(f"nobody answered within {timeout:g} s") from None
        except asyncio.CancelledError:
            question.decision = "withdrawn"
            raise
        finally:
            self._scene.questions.remove(asks)
            self._close(question)
        return question.decision

    async def _answer(self, asks: OpenQuestion) -> str:
        """Show the question, page by page if it has several, and return what was chosen."""
        question = asks.question
        pages = pages_of(question.prompt, *self._size())
        deny = question.options[denial(question.options)]
        for page in pages[:-1]:
            if await self._show(asks, Question(page, [NEXT_PAGE, deny])) != NEXT_PAGE:
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
        asks.drawn_at = None
        self._put(shown)
        return await asks.answer

    def _close(self, question: Question) -> None:
        self._put(Decision(str(question.decision)))
        now = monotonic()
        for running in self._scene.tools.values():
            if not running.written:
                # The time that the person took is not the tool's.
                running.began = now
        self._scene.begin("working")


class TerminalNotices:
    """The kernel's display system at a terminal: a dim line each."""

    def __init__(self, put: Callable[[Item], None]) -> None:
        self._put = put

    def show_message(self, message: str, level: Any, source: str = "hook") -> None:
        """Show a line and return at once."""
        if level in ("info", "warning", "error"):
            known = level
        else:
            known = "info"
        self._put(Notice(message, known, source.removeprefix("hook:")))
