"""Transports over pipes and HTTP, with limits on what a server may send."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from signal import Signals
from types import TracebackType
from typing import Any

import anyio
import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from amplifier_sandbox.platforms.signals import KILL, end_group
from amplifier_sandbox.processes.sandbox import LaunchSpec
from amplifier_sandbox.visible_text import visible

logger = logging.getLogger(__name__)

Report = Callable[[str], Awaitable[None]]

# Per second: 2,000 messages, or 32 MiB of long ones.
_BYTES_PER_SECOND = 32 * 1024**2
_LEAST_COST = _BYTES_PER_SECOND // 2_000
_MOST_REQUESTS = 16
_LONGEST_ID = 200


class Pace:
    """Limits how fast a server is read; a faster one blocks, because its pipe is full."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._reported: set[str] = set()
        self._since = time.monotonic()
        self._taken = 0

    async def take(self, size: int = 0) -> None:
        """Count one message of `size` bytes, and wait if this second's share is used up."""
        self._taken += max(size, _LEAST_COST)
        if self._taken < _BYTES_PER_SECOND:
            return
        await self.report_once("sends more than there is time to read, and is read slowly")
        used = time.monotonic() - self._since
        # Sleeps even for 0 s: buffered lines are read without a wait, and other tasks must run.
        await asyncio.sleep(max(self._taken / _BYTES_PER_SECOND - used, 0))
        self._since = time.monotonic()
        self._taken = 0

    async def report_once(self, what: str) -> None:
        """Report a problem with the server, each only once."""
        if what not in self._reported:
            self._reported.add(what)
            await self._report(what)


class Intake:
    """The two streams of a connection, with a limit on unanswered requests of the server.

    The SDK starts a task for each request of a server, and the task waits until its answer is
    written. A server that sends requests and does not read would fill the memory with tasks.
    """

    def __init__(self, reader: Any, writer: Any, pace: Pace) -> None:
        self._pace = pace
        self._unanswered: set[str] = set()
        self.reader = _Reader(reader, self._admits)
        self.writer = _Writer(writer, self._answered)

    async def _admits(self, item: Any) -> bool:
        """Return whether a message is passed to the SDK."""
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
    """Shared by both directions: closes with the stream that it wraps."""

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
        """The context of the sender, which the SDK reads."""
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


# The SDK reopens a stream that ended without an answer, as often as the server ends it.
_MOST_STREAMS = 10
_STREAMS_PER_MESSAGE = 5
_STREAM_SECONDS = 1.0


class HttpLimits:
    """Hooks of an HTTP client: before each request, and after the headers of each response.

    A custom transport could do this too, but a client with a custom transport ignores the proxies
    of the environment.
    """

    def __init__(self, most_bytes: int, pace: Pace) -> None:
        self.hooks: dict[str, list[Any]] = {"request": [self._ask], "response": [self._bound]}
        self._most_bytes = most_bytes
        self._pace = pace
        self._streams_left = _MOST_STREAMS

    async def _ask(self, request: httpx2.Request) -> None:
        """Delay streams that are reopened too often, and request no compression."""
        self._streams_left += -1 if request.method == "GET" else _STREAMS_PER_MESSAGE
        if self._streams_left < 0:
            self._streams_left = 0
            await self._pace.report_once("ends its streams too often, and is asked slowly")
            await asyncio.sleep(_STREAM_SECONDS)
        # The size of a compressed answer is not known before it is decompressed.
        request.headers["accept-encoding"] = "identity"

    async def _bound(self, response: httpx2.Response) -> None:
        """Limit the size of the response."""
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise httpx2.RemoteProtocolError("it compresses its answers though asked not to")
        kind = response.headers.get("content-type", "").strip().lower()
        # A stream may be endless; the SDK limits each of its events instead.
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
                # The only error type that the SDK turns into an answer for the caller.
                raise httpx2.StreamError("it is longer than `max_message_bytes`")
            await self._pace.take(len(chunk))
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


_CHUNK_BYTES = 65_536
_TAIL_BYTES = 1_000
_LOGGED_BYTES_PER_SECOND = 10_000
_KILL_SECONDS = 1.5
_POLL_SECONDS = 0.01


class ServerProcess:
    """One server process. `ended` is set when its output ends; `pace` reports problems."""

    def __init__(self, launch: LaunchSpec, ended: asyncio.Event, pace: Pace) -> None:
        self._launch = launch
        self._ended = ended
        self._pace = pace
        self._tail = b""

    @property
    def last_words(self) -> str:
        """The end of its standard error."""
        return visible(self._tail.decode(errors="replace")).strip()

    @asynccontextmanager
    async def streams(self, most_bytes: int, grace: float) -> AsyncGenerator[Any]:
        """Start it, yield the two streams for the SDK, and end it with all its processes."""
        loop = asyncio.get_running_loop()
        with self._launch as launch:
            # `create_subprocess_exec` keeps the transport to itself, and only the transport closes
            # pipes that another process of the server still holds.
            transport, protocol = await loop.subprocess_exec(
                lambda: SubprocessStreamProtocol(limit=most_bytes, loop=loop),
                *launch.argv,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=launch.env,
                cwd=launch.cwd,
                pass_fds=launch.pass_fds,
                start_new_session=True,
            )
            process = Process(transport, protocol, loop)
            inbox, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            write_stream, outbox = anyio.create_memory_object_stream[SessionMessage](0)
            with closing(transport), inbox, read_stream, write_stream, outbox:
                tasks = [
                    asyncio.create_task(self._listen(process, inbox)),
                    asyncio.create_task(self._speak(process, outbox)),
                    asyncio.create_task(self._read_errors(process)),
                ]
                try:
                    yield read_stream, write_stream
                finally:
                    await self._end(process, tasks, grace)

    async def _listen(self, process: Process, inbox: Any) -> None:
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                try:
                    # Parsed first: the adapter would parse a large message once per message type.
                    message = jsonrpc_message_adapter.validate_python(
                        json.loads(line), by_name=False
                    )
                except (ValueError, RecursionError):
                    what = "writes to its output what is no message; it is ignored"
                    await self._pace.report_once(what)
                    # Buffered lines are read without a wait, so that only the pace yields.
                    await self._pace.take(len(line))
                    continue
                await self._pace.take(len(line))
                # After the SDK has closed its stream, keep reading: the server must not block on a
                # full pipe while it ends.
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await inbox.send(SessionMessage(message))
        except ValueError:
            await self._pace.report_once("wrote a message longer than `max_message_bytes`")
        finally:
            inbox.close()
            self._ended.set()

    async def _speak(self, process: Process, outbox: Any) -> None:
        assert process.stdin is not None
        with suppress(ConnectionError):
            async for sent in outbox:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()

    async def _read_errors(self, process: Process) -> None:
        assert process.stderr is not None
        second = 0
        logged = 0
        while data := await process.stderr.read(_CHUNK_BYTES):
            self._tail = (self._tail + data)[-_TAIL_BYTES:]
            now = int(time.monotonic())
            second, logged = now, (logged if now == second else 0) + len(data)
            if logged <= _LOGGED_BYTES_PER_SECOND:
                logger.debug("mcp server says %s", visible(data.decode(errors="replace")))
            else:
                await self._pace.report_once("floods its standard error; most of it is not logged")

    async def _end(self, process: Process, tasks: list[asyncio.Task[None]], grace: float) -> None:
        """Ask it to end, then kill it; shielded from cancellation, and every wait has a limit."""
        assert process.stdin is not None
        with anyio.CancelScope(shield=True):
            try:
                process.stdin.close()
                if not await self._is_gone(process, grace):
                    await self._pace.report_once("did not end when it was asked to, and was killed")
            finally:
                # In `finally` and without an await before it: a cancelled task still kills.
                self._kill(process, self._launch.kill_signal)
                for task in tasks:
                    task.cancel()
            if not await self._is_gone(process, _KILL_SECONDS):
                self._kill(process, KILL)
            await asyncio.wait(tasks)
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(_KILL_SECONDS):
                    await process.communicate()
                    # asyncio logs an error of this pipe that nobody has awaited.
                    await process.stdin.wait_closed()
            if self._launch.group is not None:
                self._launch.group.kill()

    async def _is_gone(self, process: Process, seconds: float) -> bool:
        # asyncio's `wait` also waits until every other process that holds the pipes has ended.
        end = time.monotonic() + seconds
        while process.returncode is None:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    def _kill(self, process: Process, number: Signals) -> None:
        if process.returncode is None:
            end_group(process.pid, number)
