"""Questions to the person at the terminal while a session runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Literal

from amplifier_cli.output import say, styled
from amplifier_cli.terminal import notice
from amplifier_kit.visible_text import visible

__all__ = ["Notices", "TerminalApproval", "read_line"]


async def read_line() -> str:
    """Wait for one line of the terminal; unlike a thread, this can be cancelled."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()
    descriptor = sys.stdin.fileno()
    loop.add_reader(descriptor, lambda: line.done() or line.set_result(sys.stdin.readline()))
    try:
        return await line
    finally:
        loop.remove_reader(descriptor)


class TerminalApproval:
    """Asks for permission; one question at a time, and an answer that is none is asked again."""

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

        async with self._one_at_a_time:
            say(styled(visible(prompt), fg="magenta"), err=True)
            for number, option in enumerate(options, start=1):
                say(f"  {number}  {visible(option)}", err=True)
            try:
                async with asyncio.timeout(timeout):
                    return await self._choice(options)
            except TimeoutError as error:
                say(f"No answer in {timeout:g} s.", err=True)
                raise ApprovalTimeoutError from error

    async def _choice(self, options: list[str]) -> str:
        while True:
            say("> ", nl=False, err=True)
            line = await read_line()
            if not line:
                # The terminal is gone; the safe answer is the last, which is a no.
                return options[-1]
            chosen = line.strip().lower()
            for number, option in enumerate(options, start=1):
                if chosen in (str(number), option.lower()):
                    return option
            say(f"A number from 1 to {len(options)}, please.", err=True)


class Notices:
    """The kernel's display system: a line each, beside the answer; if `quiet`, only errors.

    `before` is called first, so that a line does not stand behind half of another.
    """

    def __init__(self, *, quiet: bool = False, before: Callable[[], None] = lambda: None) -> None:
        self._quiet, self._before = quiet, before

    def show_message(self, message: str, level: Any, source: str = "hook") -> None:
        """Show a line and return at once."""
        if not self._quiet or level == "error":
            self._before()
            notice(f"{source.removeprefix('hook:')}: {message}", level=str(level))
