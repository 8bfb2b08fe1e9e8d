"""Limit how many files all searches of this process have open.

Without a limit, readable files would be reported as unreadable when descriptors run out.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Condition

if sys.platform != "win32":
    import resource

_SHARE = 4
"""Searches take this part of what the process may open; the rest is for everything else."""

_MOST = 800
_FEWEST = 4
_LOOK_SECONDS = 0.05


class DescriptorPool:
    """A number of descriptors that threads share; a thread waits if none is free."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._changed = Condition()

    @contextmanager
    def take(self, most: int, is_stopped: Callable[[], bool]) -> Generator[int]:
        """Wait for at least one and yield how many were taken, up to `most`; 0 if stopped.

        Take all that are needed in one call: two threads that each hold some and wait for more
        would deadlock.
        """
        with self._changed:
            while self._free == 0 and not is_stopped():
                self._changed.wait(_LOOK_SECONDS)
            taken = min(most, self._free)
            self._free -= taken
        try:
            yield taken
        finally:
            with self._changed:
                self._free += taken
                self._changed.notify_all()


def pool_of_this_process() -> DescriptorPool:
    """Return a pool with a share of the descriptors that this process may open."""
    if sys.platform == "win32":
        return DescriptorPool(_MOST)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return DescriptorPool(_MOST)
    return DescriptorPool(max(_FEWEST, min(_MOST, soft // _SHARE)))


SEARCHES = pool_of_this_process()
"""What all searches of this process share, in every session."""


def is_out_of_descriptors(error: OSError) -> bool:
    """Whether opening failed because of the limit of open files, not because of the file."""
    return error.errno in (errno.EMFILE, errno.ENFILE)
