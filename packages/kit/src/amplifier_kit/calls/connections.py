"""Leaving a connection in a state in which the next call can use it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

logger = logging.getLogger(__name__)

# The end of a stream is right behind its answer, or not worth waiting for.
_PATIENCE_SECONDS = 0.5


async def read_rest(events: AsyncIterator[object]) -> None:
    """Read what follows a complete answer; the answer is safe, whatever becomes of the rest."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            async for _ in events:
                pass
    except Exception:
        logger.debug("connection not reusable", exc_info=True)
