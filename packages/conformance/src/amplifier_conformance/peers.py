"""Faulty peers: a server that never answers, and no network at all."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from amplifier_core.validation.rehearsal import refused_network, replaced

__all__ = ["hurried", "refused_network", "silent_peer"]


@asynccontextmanager
async def silent_peer() -> AsyncGenerator[None]:
    """Redirect every connection of this process to a server that accepts it and never answers."""
    # Kept open until the end: for the module, a closed connection would be an answer.
    held: list[asyncio.StreamWriter] = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    address: tuple[str, int] = server.sockets[0].getsockname()

    def look_up(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)]

    with (
        replaced(socket.socket, "connect", _led_to(address, socket.socket.connect)),
        replaced(socket.socket, "connect_ex", _led_to(address, socket.socket.connect_ex)),
        replaced(socket, "getaddrinfo", look_up),
    ):
        try:
            yield
        finally:
            server.close()
            for writer in held:
                writer.close()


def _led_to(address: tuple[str, int], connect: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: socket.socket, wanted: Any) -> Any:
        # Clients then fall back to IPv4. Unix sockets connect as usual.
        if self.family == socket.AF_INET6:
            raise OSError(errno.ENETUNREACH, "the silent peer has no IPv6 address")
        return connect(self, address if self.family == socket.AF_INET else wanted)

    return call


@contextmanager
def hurried() -> Generator[None]:
    """Shorten every `asyncio.sleep`, so that a module with many retries ends soon."""
    sleep = asyncio.sleep

    async def nap(delay: float, result: Any = None) -> Any:
        return await sleep(min(delay, 0.001), result)

    with replaced(asyncio, "sleep", nap):
        yield
