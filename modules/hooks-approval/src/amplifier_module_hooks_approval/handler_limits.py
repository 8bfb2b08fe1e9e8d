"""A time limit for a guard's handler that does not count the time of an open question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def within(
    seconds: float,
    handler: Callable[[str, Any], Awaitable[Answer]],
    is_waiting: Callable[[Any], bool],
) -> Callable[[str, Any], Awaitable[Answer]]:
    """Return `handler` with a limit: it raises TimeoutError unless it `is_waiting` for a user.

    `is_waiting` is called with the event's data whenever so many seconds have passed. A handler
    that ignores its cancellation is abandoned.
    """

    # Not one longer limit: a decision that hangs would then wait as long as a user may think.
    async def call(event: str, data: Any) -> Answer:
        work = asyncio.ensure_future(handler(event, data))
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=seconds)
                if not work.done() and not is_waiting(data):
                    raise TimeoutError(f"no decision after {seconds:g} s")
            return work.result()
        finally:
            work.cancel()

    return call
