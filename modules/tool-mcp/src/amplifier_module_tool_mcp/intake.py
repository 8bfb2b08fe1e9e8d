"""What a server sends, taken in at a pace that leaves time and memory for everything else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

import anyio
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

Report = Callable[[str], Awaitable[None]]

# A second's share: 2,000 messages, or 32 MiB of long ones.
_BYTES_PER_SECOND = 32 * 1024**2
_LEAST_COST = _BYTES_PER_SECOND // 2_000
_MOST_REQUESTS = 16
_LONGEST_ID = 200


class Pace:
    """Lets a server send so much a second; a faster one waits, because its pipe is full."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._reported: set[str] = set()
        self._since = time.monotonic()
        self._taken = 0

    async def take(self, size: int = 0) -> None:
        """Count one message of so many bytes, and wait when this second's share is used up."""
        self._taken += max(size, _LEAST_COST)
        if self._taken < _BYTES_PER_SECOND:
            return
        await self.report_once("sends more than there is time to read, and is read slowly")
        used = time.monotonic() - self._since
        # Also when it took long enough: between two shares everything else gets its turn.
        await asyncio.sleep(max(self._taken / _BYTES_PER_SECOND - used, 0))
        self._since = time.monotonic()
        self._taken = 0

    async def report_once(self, what: str) -> None:
        """Report what is odd about the server, each thing once."""
        if what not in self._reported:
            self._reported.add(what)
            await self._report(what)


class Intake:
    """The two streams of a connection, with a limit on what the server asks without an answer.

    The SDK starts a task for each request of a server, and the task waits until its answer is
    written. A server that asks and does not read would fill the memory with them.
    """

    def __init__(self, reader: Any, writer: Any, pace: Pace) -> None:
        self._pace = pace
        self._unanswered: set[str] = set()
        self.reader = _Reader(reader, self._admits)
        self.writer = _Writer(writer, self._answered)

    async def _admits(self, item: Any) -> bool:
        """Return whether a message is handed on."""
        await self._pace.take()
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._unanswered.discard(str((message.params or {}).get("requestId")))
        if not isinstance(message, JSONRPCRequest):
            return True
        name = str(message.id)
        if len(self._unanswered) >= _MOST_REQUESTS or len(name) > _LONGEST_ID:
            await self._pace.report_once("asks more than it listens to; the rest is not answered")
            return False
        self._unanswered.add(name)
        return True

    def _answered(self, item: Any) -> None:
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._unanswered.discard(str(item.message.id))


class _Stream:
    """What both directions share: they end with the stream they stand before."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)


class _Reader(_Stream):
    def __init__(self, stream: Any, admits: Callable[[Any], Awaitable[bool]]) -> None:
        super().__init__(stream)
        self._admits = admits

    @property
    def last_context(self) -> Any:
        """The context of the sender, which the SDK looks for."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        while True:
            item = await self._stream.receive()
            if await self._admits(item):
                return item

    def __aiter__(self) -> _Reader:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _Writer(_Stream):
    def __init__(self, stream: Any, answered: Callable[[Any], None]) -> None:
        super().__init__(stream)
        self._answered = answered

    async def send(self, item: Any, /) -> None:
        await self._stream.send(item)
        self._answered(item)
