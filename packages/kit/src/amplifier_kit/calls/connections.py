"""Reading a stream to its end, so that the next call can reuse the connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

logger = logging.getLogger(__name__)

# The end of a stream comes right after its answer, or is not worth waiting for.
_PATIENCE_SECONDS = 0.5


async def read_rest(events: AsyncIterator[object]) -> None:
    """Read what follows a complete answer; failures are only logged."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            async for _ in events:
                pass
    except Exception:
        # The answer is complete; only the connection is lost.
        logger.debug("connection not reusable", exc_info=True)
