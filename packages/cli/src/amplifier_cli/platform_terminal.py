"""What terminals of Windows do differently: waiting for a line, and discarding what was typed."""

from __future__ import annotations

import sys
from contextlib import suppress

if sys.platform == "win32":
    import msvcrt
    import threading
else:
    import termios

__all__ = ["forget_typed_ahead", "read_line"]


def forget_typed_ahead() -> None:
    """Discard unread input: it was typed before the question was on the screen."""
    if sys.platform == "win32":
        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        with suppress(termios.error, OSError, ValueError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def read_line() -> str:
    """Wait for one line of the terminal; this can be cancelled.

    On Windows the line that is typed after a cancellation is lost: only a thread can wait for it
    there, and nothing ends that thread.
    """
    import asyncio  # noqa: PLC0415 - most commands read no line, and it is a third of their start

    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def set_line(text: str) -> None:
        # It may be cancelled, or have a line already, before this runs.
        if not line.done():
            line.set_result(text)

    if sys.platform == "win32":

        def wait() -> None:
            loop.call_soon_threadsafe(set_line, sys.stdin.readline())

        threading.Thread(target=wait, daemon=True).start()
        return await line
    descriptor = sys.stdin.fileno()
    # `done`: the callback may run again before this task has removed it.
    loop.add_reader(descriptor, lambda: line.done() or set_line(sys.stdin.readline()))
    try:
        return await line
    finally:
        loop.remove_reader(descriptor)
