"""Questions and messages to the user at a terminal while a session runs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, Literal

from amplifier_cli.attention import Attention
from amplifier_cli.output import control_terminal, only_the_question, say, say_now, styled
from amplifier_cli.platform_terminal import forget_typed_ahead, read_line
from amplifier_cli.question_pages import (
    NEXT_PAGE,
    denial,
    letters_of,
    pages_of,
    ringing,
    signed_rows,
)
from amplifier_cli.terminal import PAUSE_SECONDS, notice, screen_size
from amplifier_kit.questions import Asking, Reply
from amplifier_sandbox.visible_text import exact

__all__ = ["Notices", "TerminalApproval", "read_line"]

_BAR = "┃ "


class TerminalApproval:
    """Asks for permission, one question at a time.

    Only a whole line that was typed after the question was drawn is an answer; after anything
    else it asks again. An infinite `timeout` waits for the user.
    """

    waits_for_user = True

    def __init__(self, attention: Attention | None = None) -> None:
        self._one_at_a_time = asyncio.Lock()
        self._attention = attention or Attention(control_terminal, {})

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Show the question and return the option that was chosen.

        Raises:
            ApprovalTimeoutError: nobody answered in time.
        """
        asking = Asking(prompt, tuple(options), timeout, default)
        return (await self._request(asking, takes_reason=False)).option

    async def request_reply(self, asking: Asking) -> Reply:
        """Show the question and return what was chosen and said.

        Raises:
            ApprovalTimeoutError: nobody answered in time.
        """
        return await self._request(asking, takes_reason=True)

    async def _request(self, asking: Asking, *, takes_reason: bool) -> Reply:
        from amplifier_core.approval import ApprovalTimeoutError  # noqa: PLC0415 - the kernel

        timeout = asking.timeout
        try:
            # The lock first: the time limit begins when the question is shown.
            async with (
                self._one_at_a_time,
                asyncio.timeout(None if math.isinf(timeout) else timeout),
            ):
                head = asking.prompt.split("\n", 1)[0]
                with ringing(lambda: self._attention.call(head)):
                    return await self._answer(asking, takes_reason=takes_reason)
        except TimeoutError as error:
            say(f"No answer in {timeout:g} s.", err=True)
            raise ApprovalTimeoutError from error

    async def _answer(self, asking: Asking, *, takes_reason: bool) -> Reply:
        columns, rows = screen_size()
        # Below a page: the options, what else can be typed, the mark, and a row of its answer.
        pages = pages_of(asking.prompt, columns - len(_BAR), rows - len(asking.options) - 4)
        deny = asking.options[denial(asking.options)]
        typed = _Typed(takes_reason=takes_reason)
        with only_the_question():
            for page in pages[:-1]:
                reply = await self._ask(page, (NEXT_PAGE, deny), typed)
                if reply.option != NEXT_PAGE:
                    return reply
            # Only all of a text can be changed.
            typed = _Typed(takes_reason=takes_reason, editable=asking.editable)
            return await self._ask(pages[-1], asking.options, typed)

    async def _ask(self, page: str, options: tuple[str, ...], typed: _Typed) -> Reply:
        """Show one page, and return what was typed after it was drawn."""
        columns, _ = screen_size()
        # Every row begins with a bar, so that none can imitate an option or an answer.
        for row, sign in signed_rows(page, columns - len(_BAR)):
            bold = sign == "?"
            line = styled(row, fg=_COLORS.get(sign), bold=bold) if row else ""
            say_now(f"{styled(_BAR, fg='magenta')}{line}", err=True)
        letters = {number: letter for letter, number in letters_of(options).items()}
        for number, option in enumerate(options):
            key = f" ({letters[number]})" if number in letters else ""
            say_now(f"  {number + 1}  {exact(option)}{key}", err=True)
        if typed.hints:
            say_now(styled(f"  {typed.hints}", dim=True), err=True)
        await asyncio.sleep(PAUSE_SECONDS)
        forget_typed_ahead()
        while True:
            say_now("> ", nl=False, err=True)
            line = await read_line()
            if not line:
                # End of input: the terminal is gone, and nobody can allow.
                return Reply(options[denial(options)])
            reply = typed.understood(line.strip(), options)
            if reply is not None:
                return reply
            say_now(f"Please type a number from 1 to {len(options)}, or a letter.", err=True)


_COLORS = {"+": "green", "-": "red"}


class _Typed:
    """What a typed line can be, besides an option."""

    def __init__(self, *, takes_reason: bool, editable: str | None = None) -> None:
        self._takes_reason = takes_reason
        self._editable = editable

    @property
    def hints(self) -> str:
        """What else can be typed."""
        hints = ["n REASON: deny and say why"] if self._takes_reason else []
        hints += ["e COMMAND: run that instead"] if self._editable is not None else []
        return "   ".join(hints)

    def understood(self, line: str, options: tuple[str, ...]) -> Reply | None:
        """Return the reply that a line is, or None."""
        letters = letters_of(options)
        word = line.lower()
        for number, option in enumerate(options):
            if word in (str(number + 1), option.lower()) or letters.get(word) == number:
                return Reply(option)
        letter, _, rest = line.partition(" ")
        if letter.lower() == "n" and rest.strip() and self._takes_reason:
            return Reply(options[letters["n"]], reason=rest.strip())
        if letter.lower() == "e" and rest.strip() and self._editable is not None:
            allow = options[letters.get("y", letters["n"])]
            return Reply(allow, edited=rest.strip())
        return None


class Notices:
    """The kernel's display system: one message per line on stderr; if `quiet`, only errors.

    `before` is called first, so that a message does not start at the end of another line.
    """

    def __init__(self, *, quiet: bool = False, before: Callable[[], None] = lambda: None) -> None:
        self._quiet = quiet
        self._before = before

    def show_message(self, message: str, level: Any, source: str = "hook") -> None:
        """Show a message without waiting."""
        if not self._quiet or level == "error":
            self._before()
            notice(f"{source.removeprefix('hook:')}: {message}", level=str(level))
