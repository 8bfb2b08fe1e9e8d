"""Ask the user: the question goes to the scrollback, its options are drawn above the input."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any, Literal, cast

from amplifier_cli.chat.live_view import OpenQuestion, Scene
from amplifier_cli.question_pages import NEXT_PAGE, denial, pages_of, ringing, suggestion
from amplifier_cli.render.pieces import Decision, Shown
from amplifier_core.approval import ApprovalTimeoutError
from amplifier_journal.readings.items import Question, decision_text, notice_of
from amplifier_kit.questions import Asking, Reply, Suggestion


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
        ring: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`size` returns the columns and rows for a question; `ring` calls the user to it."""
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
        # Who asks this way does not say how much is at stake.
        suggests: Suggestion = "deny" if default == "deny" else "once"
        asking = Asking(prompt, tuple(options), timeout, default, suggests=suggests)
        return (await self._ask(asking, takes_reason=False)).option

    async def request_reply(self, asking: Asking) -> Reply:
        """Ask, and return what the user chose and said.

        Raises:
            ApprovalTimeoutError: nobody answered in time.
        """
        return await self._ask(asking, takes_reason=True)

    def show_again(self) -> None:
        """Show the open question again: a screen of another size may have lost a part of it."""
        asks = self._scene.asks
        if asks is None or asks.drawn_at is None or asks.entry == "edit":
            return
        if not asks.answer.done():
            asks.answer.set_result(None)

    async def _ask(self, asking: Asking, *, takes_reason: bool) -> Reply:
        loop = asyncio.get_running_loop()
        question = Question(asking.prompt, asking.options)
        decision = ""
        timeout = asking.timeout
        chosen = suggestion(question.options, asking.suggests)
        asks = OpenQuestion(question, math.inf, loop.create_future(), chosen)
        self._scene.questions.append(asks)
        try:
            # The lock first: the time limit begins when the question is shown.
            async with (
                self._turn,
                asyncio.timeout(None if math.isinf(timeout) else timeout),
            ):
                asks.until = monotonic() + timeout
                self._scene.begin("asks you")
                head = asking.prompt.split("\n", 1)[0]
                with ringing(lambda: self._ring(head)):
                    option = await self._answer(asks, asking, takes_reason=takes_reason)
            reply = Reply(option, asks.reason, asks.edited)
            decision = decision_text(option, asks.reason, asks.edited)
            self._show_change(asking, asks.edited)
        except TimeoutError:
            decision = "no answer in time"
            raise ApprovalTimeoutError(f"nobody answered within {timeout:g} s") from None
        except asyncio.CancelledError:
            decision = "withdrawn"
            raise
        finally:
            self._scene.questions.remove(asks)
            self._close(decision)
        return reply

    def _show_change(self, asking: Asking, edited: str | None) -> None:
        """Show a running call as the user has changed it."""
        running = self._scene.tools.get(asking.call_id or "")
        given = None if running is None else running.call.arguments
        if running is None or edited is None or not isinstance(given, dict):
            return
        changed = {
            name: edited if value == asking.editable else value
            for name, value in cast("dict[str, Any]", given).items()
        }
        running.call = replace(running.call, arguments=changed)

    async def _answer(self, asks: OpenQuestion, asking: Asking, *, takes_reason: bool) -> str:
        """Show the question, as often as the screen's size changes; returns the chosen option."""
        asks.takes_reason = takes_reason
        option = None
        while option is None:
            option = await self._through_pages(asks, asking)
        return option

    async def _through_pages(self, asks: OpenQuestion, asking: Asking) -> str | None:
        """Show the question, page by page if it has several; None to begin again."""
        asks.editable = None
        columns, rows = self._size()
        pages = pages_of(asking.prompt, columns, rows)
        deny = asking.options[denial(asking.options)]
        for page in pages[:-1]:
            option = await self._show(asks, Question(page, (NEXT_PAGE, deny)), asking)
            if option != NEXT_PAGE:
                return option
        # On the last page, when all of the text was shown.
        asks.editable = asking.editable
        if len(pages) == 1:
            last = Question(asking.prompt, asking.options)
        else:
            last = Question(pages[-1], asking.options)
        return await self._show(asks, last, asking)

    async def _show(self, asks: OpenQuestion, shown: Question, asking: Asking) -> str | None:
        asks.question = shown
        asks.answer = asyncio.get_running_loop().create_future()
        asks.chosen = suggestion(shown.options, asking.suggests)
        # Keys answer a page only after it was drawn.
        asks.drawn_at = None
        self._put(shown)
        return await asks.answer

    def _close(self, decision: str) -> None:
        self._put(Decision(decision))
        now = monotonic()
        self._scene.attended_at = now
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
