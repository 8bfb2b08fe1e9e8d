"""What a thread opens, closed again if the caller is not there any more to own it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

__all__ = ["open_in_thread"]


class Closable(Protocol):
    """Something with an end, such as a lock or a process."""

    def close(self) -> Any:
        """End it."""
        ...


Opened = TypeVar("Opened", bound=Closable)
Arguments = ParamSpec("Arguments")


async def open_in_thread(
    opener: Callable[Arguments, Opened], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Opened:
    """Return what `opener` opens; if the caller is cancelled meanwhile, it is closed before that.

    A thread cannot be cancelled: after `asyncio.to_thread` nobody would have what it opened.
    """
    opening = asyncio.create_task(asyncio.to_thread(opener, *args, **kwargs))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        # A callback, because this wait may be cancelled too.
        opening.add_done_callback(_close)
        await asyncio.wait({opening})
        raise


def _close(opening: asyncio.Task[Any]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
