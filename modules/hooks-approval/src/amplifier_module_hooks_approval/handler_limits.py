"""A limit for the handler of a guard that does not count the time in which a user is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def within(
    seconds: float,
    handler: Callable[[str, Any], Awaitable[Answer]],
    is_waiting: Callable[[], bool],
) -> Callable[[str, Any], Awaitable[Answer]]:
    """Return `handler` with a limit: it raises TimeoutError unless `is_waiting` for somebody.

    `is_waiting` is asked whenever so many seconds have passed. What ignores its cancellation is
    left to itself.
    """

    async def call(event: str, data: Any) -> Answer:
        work = asyncio.ensure_future(handler(event, data))
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=seconds)
                if not work.done() and not is_waiting():
                    raise TimeoutError(f"no decision after {seconds:g} s")
            return work.result()
        finally:
            work.cancel()

    return call
