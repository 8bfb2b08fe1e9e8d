"""Ending processes, and being told to end.

Windows has no process groups that end together: there the first process ends, and what it started
is left to end by itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

__all__ = ["KILL", "STOP", "end_group", "on_signals"]

if sys.platform == "win32":
    # It ends a process at once there, as SIGKILL does elsewhere.
    KILL = signal.SIGTERM
    # Nothing stops a process for a while.
    STOP = KILL
    _ASKED_TO_END = (signal.SIGINT, signal.SIGBREAK)
else:
    KILL = signal.SIGKILL
    STOP = signal.SIGSTOP
    _ASKED_TO_END = (signal.SIGINT, signal.SIGTERM)


def end_group(leader: int, number: signal.Signals = KILL) -> None:
    """Signal a process that was started with `start_new_session`, and all it started.

    One that has ended already is no error. The caller must not have waited for it yet: afterwards
    another process can have its number.
    """
    # PermissionError is how macOS and Windows refuse for one that has ended.
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            os.kill(leader, number)
        else:
            os.killpg(leader, number)


@contextmanager
def on_signals(tell: Callable[[], object], *, only_interrupt: bool = False) -> Generator[None]:
    """Call `tell` in the running loop at each Ctrl-C, and when the process is asked to end.

    With `only_interrupt`, at Ctrl-C only.
    """
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT,) if only_interrupt else _ASKED_TO_END
    before = {number: signal.getsignal(number) for number in numbers}

    def handle(number: int, frame: Any) -> None:
        loop.call_soon_threadsafe(tell)

    for number in numbers:
        if sys.platform == "win32":
            # The loops of Windows have no handlers of signals.
            signal.signal(number, handle)
        else:
            loop.add_signal_handler(number, tell)
    try:
        yield
    finally:
        for number in numbers:
            if sys.platform == "win32":
                signal.signal(number, before[number])
            else:
                loop.remove_signal_handler(number)
