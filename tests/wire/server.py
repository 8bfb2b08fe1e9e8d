"""A server that speaks HTTP/1.1 by hand, so that it can also misbehave below HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from wire.vendor import (
    Answer,
    Cut,
    Drop,
    ErrorEvent,
    Fault,
    Garble,
    HalfOpen,
    Hold,
    Refuse,
    Reply,
    Shred,
    Slow,
    Stall,
    Vendor,
)

Scripted = Reply | Callable[[dict[str, Any]], Reply]

_NO_REPLY = "the test scripted no reply for this request"


@dataclass
class Received:
    """One request as it arrived; times are those of the event loop."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    body: dict[str, Any]
    arrived: float
    # When the server began to answer.
    answered: float = 0.0
    # Set when the connection ended before the answer was complete.
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)


class _ClientLeftError(Exception):
    """The client went away."""


class WireServer:
    """Serves one vendor's format on a free port of 127.0.0.1, answering from a script.

    `requests` are those that asked for an answer, `side_requests` all others. A request for which
    the script has no reply makes the test fail when the server closes.
    """

    def __init__(self, vendor: Vendor, *replies: Scripted) -> None:
        self.vendor = vendor
        self.requests: list[Received] = []
        self.side_requests: list[Received] = []
        self._script: list[Scripted] = list(replies)
        self._unscripted: list[Received] = []
        self._broken: list[Exception] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.base_url = ""

    @property
    def open_connections(self) -> int:
        """How many connections clients hold open."""
        return len(self._connections)

    @property
    def sent(self) -> dict[str, Any]:
        """The body of the last request that asked for an answer."""
        return self.requests[-1].body

    def reply(self, *replies: Scripted) -> None:
        """Add replies; one may be a function of the request's body."""
        self._script.extend(replies)

    async def __aenter__(self) -> Self:
        """Start to listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.base_url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        """Hang up on everybody, and fail if the script was wrong."""
        await self.close()
        if self._broken:
            raise self._broken[0]
        if kind is None and self._unscripted:
            unscripted = [f"{each.method} {each.path}" for each in self._unscripted]
            raise AssertionError(f"{_NO_REPLY}: {', '.join(unscripted)}")

    async def close(self) -> None:
        """Stop to listen and hang up; nobody can connect from now on."""
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while (received := await _read_request(reader)) is not None:
                await self._answer(received, reader, writer)
        except (ConnectionError, _ClientLeftError, asyncio.IncompleteReadError):
            pass  # The client left, which a test sees in `disconnected`.
        except asyncio.CancelledError:
            pass  # `close` hangs up; asyncio would log a cancelled connection as an error.
        except Exception as error:  # noqa: BLE001 - raised when the server closes
            self._broken.append(error)
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(
        self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one request, and notice when the client leaves meanwhile."""
        respond = _Response(received, writer)
        watch = asyncio.create_task(_watch_for_leaving(reader, received))
        answer = asyncio.create_task(self._respond(received, respond))
        try:
            await asyncio.wait({watch, answer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watch.cancel()
            answer.cancel()
            await asyncio.gather(watch, answer, return_exceptions=True)
        if received.disconnected.is_set():
            raise _ClientLeftError
        if not answer.cancelled():
            answer.result()
        await respond.finish()

    async def _respond(self, received: Received, respond: _Response) -> None:
        vendor, path, body = self.vendor, received.path, received.body
        if not vendor.is_generation(received.method, path):
            self.side_requests.append(received)
            found = vendor.side_route(received.method, path, body)
            missing = vendor.error(Refuse(404, "not_found", f"no route {path}"))
            await respond.json(404 if found is None else 200, missing if found is None else found)
            return
        self.requests.append(received)
        if not self._script:
            self._unscripted.append(received)
            await respond.json(400, vendor.error(Refuse(400, "invalid", _NO_REPLY)))
            return
        reply = self._script.pop(0)
        await self._play(reply(body) if callable(reply) else reply, received, respond)

    async def _play(self, reply: Reply, received: Received, respond: _Response) -> None:
        if isinstance(reply, HalfOpen):
            await asyncio.Event().wait()
        elif isinstance(reply, Refuse):
            error = _json(self.vendor.error(reply))
            await respond.whole(
                reply.status, error if reply.raw is None else reply.raw, reply.headers
            )
        elif isinstance(reply, Answer):
            await self._send(reply, None, received, respond)
        else:
            await self._send(reply.answer, reply, received, respond)

    async def _send(
        self, answer: Answer, fault: Fault | None, received: Received, respond: _Response
    ) -> None:
        if self.vendor.wants_stream(received.path, received.body):
            content_type = "text/event-stream"
            frames = self.vendor.stream(answer, received.body)
            place = _place(frames, fault)
            if isinstance(fault, Shred):
                frames = _shredded(fault.comment.join(frames))
        else:
            content_type = "application/json"
            whole = _json(self.vendor.body(answer, received.body))
            place, middle = 1, len(whole) // 2
            frames = [whole[:middle], whole[middle:]]
            if isinstance(fault, Shred):
                frames = _shredded(whole)
        await respond.begin(200, content_type, answer.headers)
        for number, frame in enumerate([*frames, b""]):
            if number == place and fault is not None and await self._strike(fault, respond):
                return
            if isinstance(fault, Slow):
                await asyncio.sleep(fault.pause_seconds)
            garbled = number == place and isinstance(fault, Garble)
            await respond.chunk(_half(frame) if garbled else frame)

    async def _strike(self, fault: Fault, respond: _Response) -> bool:
        """Do what the fault does at its place; True ends the answer."""
        match fault:
            case Drop():
                respond.reset()
            case Stall():
                await asyncio.Event().wait()
            case Hold():
                await fault.until.wait()
                return False
            case ErrorEvent():
                await respond.chunk(self.vendor.error_event(fault.refuse))
            case Cut():
                pass
            case Garble() | Slow() | Shred():
                return False
        return True


def _place(frames: list[bytes], fault: Fault | None) -> int:
    """Return before which frame a fault strikes."""
    if fault is None or isinstance(fault, Slow | Shred):
        return -1
    if isinstance(fault.after, int):
        return fault.after if fault.after >= 0 else len(frames) + fault.after
    found = [place for place, frame in enumerate(frames) if fault.after.encode() in frame]
    assert found, f"no event contains {fault.after!r}"
    return found[0] + 1


def _shredded(whole: bytes) -> list[bytes]:
    return [whole[start : start + 7] for start in range(0, len(whole), 7)]


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _half(frame: bytes) -> bytes:
    """Return an event with half of its data, which is no JSON any more."""
    start = max(frame.find(b"data: "), 0)
    return frame[: (start + len(frame)) // 2] + b"\n\n"


class _Response:
    """Writes one HTTP response; `finish` ends it in good order."""

    def __init__(self, received: Received, writer: asyncio.StreamWriter) -> None:
        self._received = received
        self._writer = writer
        self._begun = False

    async def json(self, status: int, value: dict[str, Any]) -> None:
        await self.whole(status, _json(value), {})

    async def whole(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        await self.begin(status, "application/json", headers)
        await self.chunk(body)

    async def begin(self, status: int, content_type: str, headers: dict[str, str]) -> None:
        self._received.answered = asyncio.get_running_loop().time()
        self._begun = True
        head = {"content-type": content_type, "transfer-encoding": "chunked", **headers}
        lines = [f"HTTP/1.1 {status} Scripted", *(f"{key}: {value}" for key, value in head.items())]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())
        await self._writer.drain()

    async def chunk(self, data: bytes) -> None:
        if data:
            self._writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await self._writer.drain()
        # Events that arrive one by one, as they do from afar, and not all in one read.
        await asyncio.sleep(0)

    def reset(self) -> None:
        """Reset the connection, as a machine does that has lost its power."""
        linger_none = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, linger_none
        )
        self._writer.transport.abort()

    async def finish(self) -> None:
        if self._begun and not self._writer.transport.is_closing():
            self._writer.write(b"0\r\n\r\n")
            await self._writer.drain()


async def _watch_for_leaving(reader: asyncio.StreamReader, received: Received) -> None:
    try:
        data = await reader.read(1)
    except ConnectionError:
        data = b""
    assert not data, "a client sent a second request before the first was answered"
    received.disconnected.set()


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    """Read one request; None when the client has no more."""
    line = await reader.readline()
    if not line:
        return None
    method, target, _ = line.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while (line := await reader.readline()) not in (b"\r\n", b""):
        key, _, value = line.decode().partition(":")
        headers[key.strip().lower()] = value.strip()
    raw = await _read_body(reader, headers)
    body: Any = json.loads(raw) if raw else {}
    path = target.partition("?")[0]
    arrived = asyncio.get_running_loop().time()
    return Received(method, path, headers, raw, body, arrived)


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return body
