"""HTTP to a server with limits that the SDK does not have: bytes of an answer, and requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from amplifier_module_tool_mcp.intake import Pace

# The SDK asks again for a stream that ended without an answer, as often as the server likes.
_MOST_STREAMS = 10
_STREAMS_PER_MESSAGE = 5
_STREAM_SECONDS = 1.0


class HttpLimits:
    """Hooks of a client: before each request, and after the head of each answer.

    A transport of our own would be another place for them, but a client that is given one
    does not use the proxies of the environment any more.
    """

    def __init__(self, most_bytes: int, pace: Pace) -> None:
        self.hooks: dict[str, list[Any]] = {"request": [self._ask], "response": [self._bound]}
        self._most_bytes = most_bytes
        self._pace = pace
        self._streams_left = _MOST_STREAMS

    async def _ask(self, request: httpx2.Request) -> None:
        """Wait before yet another stream is asked for, and ask for plain bytes."""
        self._streams_left += -1 if request.method == "GET" else _STREAMS_PER_MESSAGE
        if self._streams_left < 0:
            self._streams_left = 0
            await self._pace.report_once("ends its streams too often, and is asked slowly")
            await asyncio.sleep(_STREAM_SECONDS)
        # What is compressed says nothing of its size before it is unpacked.
        request.headers["accept-encoding"] = "identity"

    async def _bound(self, response: httpx2.Response) -> None:
        """Have the answer end where it is too long."""
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise httpx2.RemoteProtocolError("it compresses its answers though asked not to")
        kind = response.headers.get("content-type", "").strip().lower()
        # A stream has a limit for each event instead.
        if kind.startswith("text/event-stream"):
            most_bytes = None
        else:
            most_bytes = self._most_bytes
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(response.stream, most_bytes, self._pace)


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most_bytes: int | None, pace: Pace) -> None:
        self._stream = stream
        self._most_bytes = most_bytes
        self._pace = pace

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if self._most_bytes is not None and size > self._most_bytes:
                await self._pace.report_once("sent a message longer than `max_message_bytes`")
                # The one kind of error that the SDK makes an answer of.
                raise httpx2.StreamError("it is longer than `max_message_bytes`")
            await self._pace.take(len(chunk))
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
