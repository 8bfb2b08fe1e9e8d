"""The end of a process as a descriptor, for event loops; the process is not reaped."""

from __future__ import annotations

import os
import select
import sys
import threading
from contextlib import suppress

__all__ = ["end_of", "has_process_descriptors"]


def end_of(process: int) -> int:
    """Return a descriptor that becomes readable when a child process ends; the caller closes it.

    The child stays a zombie, so that its number, and that of its group, is not used again before
    the caller has sent its signals.

    Raises:
        OSError: there are no more descriptors, or this is Windows, where nothing watches an end.
    """
    if sys.platform == "win32":
        raise OSError("the end of a process cannot be watched on Windows")
    if sys.platform == "linux" and has_process_descriptors():
        return os.pidfd_open(process)
    reading, writing = os.pipe()
    thread = threading.Thread(
        target=_close_at_end, args=(process, writing), name=f"end-of-{process}", daemon=True
    )
    thread.start()
    return reading


def has_process_descriptors() -> bool:
    """Whether the system has descriptors of processes; of the systems here, Linux has."""
    return hasattr(os, "pidfd_open")


def _close_at_end(process: int, descriptor: int) -> None:
    """Close the pipe when the process has ended, which its other end reads as its end."""
    try:
        # It was reaped by somebody else, so it has ended.
        with suppress(ChildProcessError, ProcessLookupError):
            _wait_without_reaping(process)
    finally:
        os.close(descriptor)


def _wait_without_reaping(process: int) -> None:
    if sys.platform == "darwin":
        # Python has `waitid` there only since 3.13.
        queue = select.kqueue()
        try:
            event = select.kevent(
                process,
                filter=select.KQ_FILTER_PROC,
                flags=select.KQ_EV_ADD | select.KQ_EV_ONESHOT,
                fflags=select.KQ_NOTE_EXIT,
            )
            queue.control([event], 1)
        finally:
            queue.close()
    elif sys.platform != "win32":
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
