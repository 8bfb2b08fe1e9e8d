"""A vendor's SDK client, made in a thread so that the event loop never blocks, and its limits."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

C = TypeVar("C")

MOST_ANSWER_BYTES = 64 * 1024 * 1024
"""Bytes of one answer on the wire: 128,000 tokens, each in an event of its own, take 40 MB."""

# Every client of this process that is being made. SDKs look at each other's half-imported libraries
# in `sys.modules`, so no client is returned while another one is being made.
_being_made: set[Future[Any]] = set()
# HTTP clients import this with their first request, which would block the event loop.
_LOADED_LATE = "anyio._backends._asyncio"


class LazyClient(Generic[C]):
    """Makes its client once: on `start`, else on the first `get`.

    `make` imports the SDK and returns the client; it runs in a thread of its own. A failure is not
    cached: the next `get` tries again.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._making: Future[C] | None = None

    def start(self) -> None:
        """Start making the client in the background; return immediately."""
        if self._making is None:
            thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sdk-import")
            self._making = thread.submit(self._prepared)
            thread.shutdown(wait=False)
            _being_made.add(self._making)
            self._making.add_done_callback(_being_made.discard)

    async def get(self) -> C:
        """Return the client, waiting for its thread without blocking the loop."""
        making = self._making
        if making is None:
            self.start()
            making = self._making
        assert making is not None  # start() has just made it
        if _being_made:
            await asyncio.to_thread(wait, _being_made.copy())
        if making.done() and making.exception() is None:
            return making.result()
        try:
            # Shielded: a cancelled caller must not cancel what others wait for.
            return await asyncio.shield(asyncio.wrap_future(making))
        except Exception:
            # Unless another caller has already started the next attempt.
            if self._making is making:
                self._making = None
            raise

    def _prepared(self) -> C:
        client = self._make()
        if find_spec("anyio") is not None:
            import_module(_LOADED_LATE)
        return client

    async def close(self) -> None:
        """Close the client if there is one, by its `close` or `aclose`, sync or async."""
        making = self._making
        self._making = None
        if making is None or making.cancel():
            return
        try:
            client: Any = await asyncio.wrap_future(making)
        except Exception:  # noqa: BLE001 - `get` has raised it to its caller; nothing to close
            return
        close = getattr(client, "aclose", None) or getattr(client, "close", None)
        closing = None if close is None else close()
        if inspect.isawaitable(closing):
            await closing


async def bound_answer(response: Any) -> None:
    """Make reading the body of a response fail after `MOST_ANSWER_BYTES`."""
    # Not imported at the top, which would slow every module's start; a response exists by now.
    library: Any = sys.modules["httpx2"]
    inner: Any = response.stream

    class BoundedStream(library.AsyncByteStream):  # pyright: ignore[reportUntypedBaseClass] - imported late
        """Counts the bytes that pass."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            # Bytes, not tokens: a hostile server does not report how many it sends.
            size = 0
            async for chunk in inner:
                size += len(chunk)
                if size > MOST_ANSWER_BYTES:
                    raise library.ReadError(f"the answer has more than {MOST_ANSWER_BYTES:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await inner.aclose()

    response.stream = BoundedStream()
