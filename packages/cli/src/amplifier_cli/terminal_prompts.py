"""Questions and messages to the user at a terminal while a session runs."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable
from typing import Any, Literal

from amplifier_cli.output import only_the_question, ring_bell, say, say_now, styled
from amplifier_cli.question_pages import NEXT_PAGE, denial, pages_of, ringing, rows_of
from amplifier_cli.terminal import PAUSE_SECONDS, forget_typed_ahead, notice, screen_size
from amplifier_sandbox.visible_text import exact

__all__ = ["Notices", "TerminalApproval", "read_line"]

_BAR = "┃ "


async def read_line() -> str:
    """Wait for one line of the terminal; unlike a read in a thread, this can be cancelled."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()
    descriptor = sys.stdin.fileno()
    # `done`: the callback may run again before this task has removed it.
    loop.add_reader(descriptor, lambda: line.done() or line.set_result(sys.stdin.readline()))
    try:
        return await line
    finally:
        loop.remove_reader(descriptor)


class TerminalApproval:
    """Asks for permission, one question at a time.

    Only a whole line that was typed after the question was drawn is an answer; after anything
    else it asks again. An infinite `timeout` waits for the user.
    """

    waits_for_user = True

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Show the question and return the option that was chosen.

        Raises:
            ApprovalTimeoutError: nobody answered in time.
        """
        from amplifier_core.approval import ApprovalTimeoutError  # noqa: PLC0415 - the kernel

        columns, rows = screen_size()
        pages = pages_of(prompt, columns - len(_BAR), rows)
        try:
            # The lock first: the time limit begins when the question is shown.
            async with (
                self._one_at_a_time,
                asyncio.timeout(None if math.isinf(timeout) else timeout),
            ):
                with ringing(ring_bell):
                    return await self._answer(pages, options)
        except TimeoutError as error:
            say(f"No answer in {timeout:g} s.", err=True)
            raise ApprovalTimeoutError from error

    async def _answer(self, pages: list[str], options: list[str]) -> str:
        deny = options[denial(options)]
        with only_the_question():
            for page in pages[:-1]:
                if await self._ask(page, [NEXT_PAGE, deny]) != NEXT_PAGE:
                    return deny
            return await self._ask(pages[-1], options)

    async def _ask(self, page: str, options: list[str]) -> str:
        """Show one page, and return the option that was typed after it was drawn."""
        columns, _ = screen_size()
        # Every row begins with a bar, so that none can imitate an option or an answer.
        for row in rows_of(page, columns - len(_BAR)):
            say_now(f"{styled(_BAR, fg='magenta')}{row}", err=True)
        for number, option in enumerate(options, start=1):
            say_now(f"  {number}  {exact(option)}", err=True)
        await asyncio.sleep(PAUSE_SECONDS)
        forget_typed_ahead()
        while True:
            say_now("> ", nl=False, err=True)
            line = await read_line()
            if not line:
                # End of input: the terminal is gone, and nobody can allow.
                return options[denial(options)]
            chosen = line.strip().lower()
            for number, option in enumerate(options, start=1):
                if chosen in (str(number), option.lower()):
                    return option
            say_now(f"Please type a number from 1 to {len(options)}.", err=True)


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
