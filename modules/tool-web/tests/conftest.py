"""What the tests of tool-web share: an internet of one machine, with a DNS of its own."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from ipaddress import ip_address
from typing import Any

import pytest
import pytest_asyncio

from amplifier_core.models import HookResult, ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_web.config import WebConfig
from amplifier_module_tool_web.destinations import FetchError
from amplifier_module_tool_web.fetcher import Fetcher
from amplifier_module_tool_web.tools import PARTIAL, REFUSED, WebFetch

PUBLIC = "93.184.215.14"
SECRET = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nsecret"
A, AAAA = 1, 28

Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Dns(asyncio.DatagramProtocol):
    """A DNS server; each name has a list of answers, given in turn, the last one for ever."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.questions: list[str] = []

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        name, kind, end = read_question(data)
        if kind == A:
            self.questions.append(name)
        answers = self.answers.get(name, [[]])
        turn = min(self.questions.count(name), len(answers)) - 1
        packed = [ip_address(address).packed for address in answers[turn]]
        records = [raw for raw in packed if len(raw) == (4 if kind == A else 16)]
        head = data[:2] + struct.pack(">HHHHH", 0x8180, 1, len(records), 0, 0)
        body = [struct.pack(">HHHIH", 0xC00C, kind, 1, 0, len(raw)) + raw for raw in records]
        self._transport.sendto(head + data[12:end] + b"".join(body), addr)


class Answer(asyncio.DatagramProtocol):
    """What comes back for one question."""

    def __init__(self) -> None:
        self.received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.set_result(data)


def read_question(data: bytes) -> tuple[str, int, int]:
    labels: list[str] = []
    at = 12
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode())
        at += 1 + data[at]
    return ".".join(labels), struct.unpack(">H", data[at + 1 : at + 3])[0], at + 5


class Internet:
    """A public site and a private one, the way to them, and what is known of who went where."""

    def __init__(self, dns: Dns, dns_port: int) -> None:
        self.dns = dns
        self._dns_port = dns_port
        self.pages: dict[str, bytes | Serve] = {}
        self.private_pages: dict[str, bytes | Serve] = {"/": SECRET}
        self.requests: list[str] = []
        self.private_requests: list[str] = []
        self.connections: list[tuple[str, int]] = []
        self.public_port = self.private_port = 0
        self.coordinator = MockCoordinator()
        self.coordinator.display_system = self
        self.lines: list[str] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        for event in (REFUSED, PARTIAL, "web:search_unavailable"):
            self.coordinator.hooks.register(event, self._heard)

    async def _heard(self, event: str, data: dict[str, Any]) -> HookResult:
        self.events.append((event, dict(data)))
        return HookResult()

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(message)

    def tool(self, tls: ssl.SSLContext | None = None, **config: Any) -> WebFetch:
        # One that trusts nobody is made at once; the system's certificates take their time.
        tls = tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return WebFetch(self.coordinator, Fetcher(WebConfig(**config), self.resolve, tls))

    async def fetch(self, url: str, *, start: int = 0, **config: Any) -> ToolResult:
        async with asyncio.timeout(120):
            return await self.tool(**config).execute({"url": url, "start": start})

    async def resolve(self, host: str) -> list[str]:
        """Ask the DNS server, over the wire."""
        found = [*await self._ask(host, A), *await self._ask(host, AAAA)]
        if not found:
            raise FetchError(f"`{host}` was not found.")
        return found

    async def _ask(self, host: str, kind: int) -> list[str]:
        labels = b"".join(bytes([len(label)]) + label.encode() for label in host.split("."))
        question = labels + b"\0" + struct.pack(">HH", kind, 1)
        loop = asyncio.get_running_loop()
        transport, answer = await loop.create_datagram_endpoint(
            Answer, remote_addr=("127.0.0.1", self._dns_port)
        )
        try:
            transport.sendto(struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + question)
            async with asyncio.timeout(120):
                data = await answer.received
        finally:
            transport.close()
        size = 4 if kind == A else 16
        start = 12 + len(question) + 12
        ends = [start + n * (12 + size) for n in range(struct.unpack(">H", data[6:8])[0])]
        return [str(ip_address(data[at : at + size])) for at in ends]

    async def serve_public(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._serve(reader, writer, self.requests, self.pages)

    async def serve_private(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._serve(reader, writer, self.private_requests, self.private_pages)

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        requests: list[str],
        pages: dict[str, bytes | Serve],
    ) -> None:
        try:
            first = await reader.readexactly(1)
            if first == b"\x16":
                # A TLS handshake, to a site that has HTTP alone: it would not come to a blank line.
                return
            request = (first + await reader.readuntil(b"\r\n\r\n")).decode()
            requests.append(request)
            page = pages.get(request.split()[1], b"HTTP/1.1 404 Not Found\r\n\r\n")
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                await page(writer)
        except (OSError, asyncio.IncompleteReadError):
            # The client may leave whenever it has read enough.
            pass
        finally:
            writer.close()

    def routed(self, connect: Callable[..., Any]) -> Callable[..., Any]:
        """Lead connections to the public address to the public site, and stop all others."""

        def call(own: socket.socket, address: Any) -> Any:
            is_internet = own.family in (socket.AF_INET, socket.AF_INET6)
            if own.type != socket.SOCK_STREAM or not is_internet:
                return connect(own, address)
            self.connections.append((address[0], address[1]))
            if address[0] == PUBLIC:
                return connect(own, ("127.0.0.1", self.public_port))
            if address[:2] == ("127.0.0.1", self.private_port):
                return connect(own, address)
            raise OSError(errno.ECONNREFUSED, "nobody is there")

        return call


@pytest_asyncio.fixture
async def internet(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Internet]:
    """One public site, one private site, one DNS server."""
    loop = asyncio.get_running_loop()
    transport, dns = await loop.create_datagram_endpoint(Dns, local_addr=("127.0.0.1", 0))
    internet = Internet(dns, transport.get_extra_info("sockname")[1])
    dns.answers["site.example"] = [[PUBLIC]]
    async with AsyncExitStack() as stack:
        stack.callback(transport.close)
        public = await asyncio.start_server(internet.serve_public, "127.0.0.1", 0)
        private = await asyncio.start_server(internet.serve_private, "127.0.0.1", 0)
        for server in (public, private):
            stack.callback(server.close)
        internet.public_port = public.sockets[0].getsockname()[1]
        internet.private_port = private.sockets[0].getsockname()[1]
        monkeypatch.setattr(socket.socket, "connect", internet.routed(socket.socket.connect))
        yield internet
