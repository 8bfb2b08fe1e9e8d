"""Limits and progress reports of a fetch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from amplifier_foundation.sources.errors import FetchError

__all__ = ["LIMITS", "Limits", "Progress", "ProgressListener", "Watch"]

_QUIET_SECONDS = 1.0
_INTERVAL_SECONDS = 0.2


class Limits(NamedTuple):
    """The limits of one fetch; `ratio` is how many times its size an archived file may grow."""

    seconds: float = 300.0
    bytes: int = 256 << 20
    files: int = 20_000
    ratio: int = 200


LIMITS = Limits()


class Progress(NamedTuple):
    """A progress report about a fetch that takes longer than a second."""

    source: str
    seconds: float
    bytes: int
    total: int | None
    done: bool


ProgressListener = Callable[[Progress], None]


class Watch:
    """Watches one fetch: ends it at a limit, and reports its progress."""

    def __init__(self, source: str, limits: Limits, listener: ProgressListener | None) -> None:
        self.source = source
        self.limits = limits
        self._listener = listener
        self._started = time.monotonic()
        self._told = 0.0
        self._bytes = 0

    def reached(self, size: int, total: int | None = None) -> None:
        """Note that `size` bytes were fetched so far.

        Raises:
            FetchError: a limit is exceeded.
        """
        self._bytes = size
        seconds = time.monotonic() - self._started
        if seconds > self.limits.seconds:
            raise FetchError(
                f"Fetching {self.source} was ended.",
                why=f"It took longer than {self.limits.seconds:g} seconds.",
            )
        if max(size, total or 0) > self.limits.bytes:
            raise FetchError(
                f"Fetching {self.source} was ended.",
                why=f"It is larger than {self.limits.bytes:,} bytes.",
            )
        if seconds > _QUIET_SECONDS and seconds - self._told >= _INTERVAL_SECONDS:
            self._told = seconds
            self._tell(seconds, total, done=False)

    def ended(self) -> None:
        """Report the end of the fetch, if any progress was reported."""
        if self._told:
            self._tell(time.monotonic() - self._started, self._bytes, done=True)

    def _tell(self, seconds: float, total: int | None, *, done: bool) -> None:
        if self._listener is not None:
            self._listener(Progress(self.source, seconds, self._bytes, total, done))
