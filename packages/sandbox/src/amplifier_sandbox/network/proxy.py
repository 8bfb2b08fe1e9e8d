"""An HTTP proxy that connects only where it was told to.

It takes `CONNECT` for anything encrypted and requests of whole URLs for plain HTTP. Each program
has a token of its own, which is in its proxy's URL and names where it may connect to. A host is
looked up once, its addresses are checked, and one of them is connected to: the program cannot
resolve names, and no answer of a name server that comes later matters.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
import re
import secrets
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from amplifier_sandbox.network.addresses import LookUpError, is_public, look_up
from amplifier_sandbox.network.destinations import Destination

logger = logging.getLogger(__name__)

NOT_ASKED_FOR = "it was not asked for"
"""Why a program may not connect to a place that the user could give it."""

OWN_PROXY_UNUSED = "it was not reached directly, and HTTPS_PROXY of the user is not used here"
"""Why a host may not answer in a network whose programs all have to use a proxy."""

_LONGEST_HEAD = 32_768
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 30.0
_CHUNK = 65_536
_MOST_CONNECTIONS = 256
_LINE = re.compile(r"(?P<method>[A-Z]{1,20}) (?P<target>[\x21-\x7e]+) HTTP/1\.[01]")
_HEADER = re.compile(
    r"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(?P<value>[\t\x20-\x7e\x80-\xff]*)"
)
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")


class RefusedError(Exception):
    """A request that is not carried out; `status` is that of the answer."""

    def __init__(self, message: str, status: str = "403 Forbidden") -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Pass:
    """What one program may connect to, and what it was refused, as `host:port`, each once."""

    token: str
    destinations: tuple[Destination, ...]
    refused: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class _Request:
    method: str
    host: str
    port: int
    token: str
    # What is sent to the other side first; empty for a tunnel.
    head: bytes


class Proxy:
    """Serves the connections of one listening socket while a program has a pass."""

    def __init__(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._passes: dict[str, Pass] = {}
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def admit(self, destinations: Sequence[Destination]) -> AsyncGenerator[Pass]:
        """Give one program a pass that is void when the block ends."""
        made = Pass(secrets.token_urlsafe(24), tuple(destinations))
        self._passes[made.token] = made
        if self._accepting is None:
            self._accepting = asyncio.create_task(self._accept())
        try:
            yield made
        finally:
            del self._passes[made.token]
            if not self._passes:
                self._end()

    def _end(self) -> None:
        """End what is left of the last program: a session may end without a cleanup."""
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
        for each in self._connections:
            each.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(self._listener)
            if len(self._connections) >= _MOST_CONNECTIONS:
                connection.close()
                continue
            task = asyncio.create_task(self._serve(connection))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        try:
            await self._answer(reader, writer)
        except RefusedError as error:
            await _refuse(writer, error)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            logger.debug("proxy connection ended: %s", error)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_SECONDS):
            request = await _read_request(reader)
        known = self._passes.get(request.token)
        if known is None:
            raise RefusedError("this program has no pass", "407 Proxy Authentication Required")
        address = await _allowed_address(known, request.host, request.port)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                far_reader, far_writer = await asyncio.open_connection(address, request.port)
        except (OSError, TimeoutError) as error:
            _explain_failure(known, f"{request.host}:{request.port}")
            raise RefusedError(
                f"{request.host}:{request.port} does not answer", "502 Bad Gateway"
            ) from error
        try:
            if request.method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                far_writer.write(request.head)
            await _exchange((reader, far_writer), (far_reader, writer))
        finally:
            far_writer.close()


async def _allowed_address(known: Pass, host: str, port: int) -> str:
    """Return the address to connect to.

    Raises:
        RefusedError: the program may not connect there.
    """
    place = f"{host}:{port}"
    covering = [each for each in known.destinations if each.covers(host, port)]
    if not covering:
        known.refused[place] = NOT_ASKED_FOR
        raise RefusedError(f"{place} is outside of the sandbox")
    try:
        addresses = await look_up(host)
    except LookUpError as error:
        _explain_failure(known, place)
        raise RefusedError(str(error), "502 Bad Gateway") from error
    shown = {address for each in covering for address in each.addresses}
    for address in addresses:
        # One inward address refuses the host: a public one beside it may be there to deceive.
        if not is_public(address) and address not in shown:
            known.refused[place] = f"its address {address} is not a public one"
            raise RefusedError(f"{place} has the address {address}, which is not a public one")
    return addresses[0]


def _explain_failure(known: Pass, place: str) -> None:
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy")):
        known.refused[place] = OWN_PROXY_UNUSED


async def _read_request(reader: asyncio.StreamReader) -> _Request:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise RefusedError(
            "the request is too long", "431 Request Header Fields Too Large"
        ) from error
    if len(raw) > _LONGEST_HEAD:
        raise RefusedError("the request is too long", "431 Request Header Fields Too Large")
    first, *rest = raw.decode("latin-1")[:-4].split("\r\n")
    line = _LINE.fullmatch(first)
    headers = [_HEADER.fullmatch(each) for each in rest]
    if line is None or any(each is None for each in headers):
        raise RefusedError("the request cannot be read", "400 Bad Request")
    fields = [(each["name"], each["value"].strip()) for each in headers if each is not None]
    token = _token_in(fields)
    if line["method"] == "CONNECT":
        host, port = _authority(line["target"])
        return _Request("CONNECT", host, port, token, b"")
    return _plain_request(line["method"], line["target"], fields, token)


def _plain_request(method: str, target: str, fields: list[tuple[str, str]], token: str) -> _Request:
    try:
        url = urlsplit(target)
        port = url.port or 80
    except ValueError as error:
        raise RefusedError("the URL cannot be read", "400 Bad Request") from error
    if url.scheme != "http" or not url.hostname or "@" in url.netloc:
        raise RefusedError("only http:// is requested in this way", "400 Bad Request")
    host = url.hostname.lower()
    if not _AUTHORITY.fullmatch(f"{host}:{port}"):
        raise RefusedError("the host cannot be read", "400 Bad Request")
    # One Host field, ours: another would reach a different site of the same server.
    kept = [
        (name, value)
        for name, value in fields
        if not name.lower().startswith("proxy-") and name.lower() not in ("host", "connection")
    ]
    path = url._replace(scheme="", netloc="", fragment="").geturl() or "/"
    lines = [f"{method} {path} HTTP/1.1", f"Host: {url.netloc}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in kept]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return _Request(method, host, port, token, head)


def _authority(text: str) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 65_536:
        raise RefusedError("the host cannot be read", "400 Bad Request")
    return found["host"].lower().strip("[]").rstrip("."), int(found["port"])


def _token_in(fields: list[tuple[str, str]]) -> str:
    """Return the user's name of the proxy's credentials, which is the token."""
    for name, value in fields:
        scheme, _, encoded = value.partition(" ")
        if name.lower() == "proxy-authorization" and scheme.lower() == "basic":
            with suppress(binascii.Error, ValueError):
                return base64.b64decode(encoded, validate=True).decode("ascii").partition(":")[0]
    return ""


async def _exchange(*ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    """Copy both ways until each has ended."""
    async with asyncio.TaskGroup() as group:
        for source, target in ways:
            group.create_task(_copy(source, target))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
        target.write_eof()


async def _refuse(writer: asyncio.StreamWriter, error: RefusedError) -> None:
    body = f"amplifier: {error}\n".encode("utf-8", "replace")
    head = [
        f"HTTP/1.1 {error.status}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if error.status.startswith("407"):
        head.append('Proxy-Authenticate: Basic realm="sandbox"')
    with suppress(OSError):
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        await writer.drain()
