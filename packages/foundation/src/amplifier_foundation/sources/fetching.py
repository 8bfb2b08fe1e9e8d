"""How long and how much a fetch may take, and the word to the person while it lasts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from amplifier_foundation.sources.errors import FetchError

__all__ = ["LIMITS", "Limits", "Progress", "ProgressListener", "Watch"]

_QUIET_SECONDS = 1.0
_INTERVAL_SECONDS = 0.2


class Limits(NamedTuple):
    """What one fetch may take; `ratio` is how many times its size an archived file may grow."""

    seconds: float = 300.0
    bytes: int = 256 << 20
    files: int = 20_000
    ratio: int = 200


LIMITS = Limits()


class Progress(NamedTuple):
    """One word on a fetch that takes longer than a second."""

    source: str
    seconds: float
    bytes: int
    total: int | None
    done: bool


ProgressListener = Callable[[Progress], None]


class Watch:
    """One fetch: ends it when it takes too long or too much, and tells how far it is."""

    def __init__(self, source: str, limits: Limits, listener: ProgressListener | None) -> None:
        self.source = source
        self.limits = limits
        self._listener = listener
        self._started = time.monotonic()
        self._told = 0.0
        self._bytes = 0

    def reached(self, size: int, total: int | None = None) -> None:
        """Take note that `size` bytes are there.

        Raises:
            FetchError: that is more, or took longer, than a fetch may.
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
        """Say that the fetch is over, if anything was said of it."""
        if self._told:
            self._tell(time.monotonic() - self._started, self._bytes, done=True)

    def _tell(self, seconds: float, total: int | None, *, done: bool) -> None:
        if self._listener is not None:
            self._listener(Progress(self.source, seconds, self._bytes, total, done))
