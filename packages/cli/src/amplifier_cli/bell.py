"""The bell of the terminal, for a user who looks elsewhere while a question waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["ringing"]

# When a question has waited so long, its user is probably away.
_AGAIN_SECONDS = 60.0


@contextmanager
def ringing(ring: Callable[[], None]) -> Generator[None]:
    """Ring now, and once more if what is inside takes long."""
    ring()
    again = asyncio.get_running_loop().call_later(_AGAIN_SECONDS, ring)
    try:
        yield
    finally:
        again.cancel()
