"""A proxy before PostgreSQL that cuts the connection of a chosen transaction at its COMMIT."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Generator
from typing import Literal

import sqlalchemy as sa

__all__ = ["CuttingProxy", "proxy_before"]

When = Literal["committed", "never sent"]


class CuttingProxy:
    """Passes everything on, until `cut` says which transaction is to lose its connection.

    It runs in a thread of its own: whoever talks through it may block an event loop.
    """

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self._needle, self._when = "", "committed"
        self.cuts = 0

    @property
    def port(self) -> int:
        return self._server.sockets[0].getsockname()[1]

    def cut(self, needle: str, when: When) -> None:
        """Cut the next transaction that has this text in a statement, once.

        `committed`: the COMMIT arrives and its answer is lost. `never sent`: it does not arrive.
        """
        self._needle, self._when = needle, when

    def start(self) -> None:
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._connect(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._connections.discard(task)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(*self._upstream)
        answers = asyncio.create_task(_copy(server_reader, writer))
        try:
            await self._pass_on(reader, server_writer, server_reader, answers)
        finally:
            server_writer.transport.abort()
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        server: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        answers: asyncio.Task[None],
    ) -> None:
        """Pass messages on until the connection is cut."""
        length = await reader.readexactly(4)
        server.write(length + await reader.readexactly(int.from_bytes(length) - 4))
        transaction = _Transaction()
        async for kind, message in _messages(reader):
            if transaction.ends_with(kind, message) and self._is_meant(transaction):
                await self._cut(server, server_reader, answers, message)
                return
            server.write(message)
            await server.drain()

    def _is_meant(self, transaction: _Transaction) -> bool:
        needle = self._needle
        return bool(needle) and any(needle in sql for sql in transaction.statements)

    async def _cut(
        self,
        server: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        answers: asyncio.Task[None],
        commit: bytes,
    ) -> None:
        self._needle = ""
        if self._when == "committed":
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            server.write(commit)
            assert await server_reader.read(1), "the server has answered"
        self.cuts += 1


class _Transaction:
    """The statements of a connection since its last BEGIN."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self._prepared: dict[bytes, str] = {}

    def ends_with(self, kind: bytes, message: bytes) -> bool:
        """Take note of a message; whether it is the COMMIT."""
        body = message[5:]
        if kind == b"P":
            name, sql, _ = body.split(b"\0", 2)
            self._prepared[name] = sql.decode()
            return False
        if kind == b"B":
            sql = self._prepared.get(body.split(b"\0", 2)[1], "")
        elif kind == b"Q":
            sql = body[:-1].decode()
        else:
            return False
        if sql.upper().startswith("BEGIN"):
            self.statements = []
        self.statements.append(sql)
        return sql.upper().startswith("COMMIT")


async def _messages(reader: asyncio.StreamReader) -> AsyncGenerator[tuple[bytes, bytes]]:
    while True:
        head = await reader.readexactly(5)
        yield head[:1], head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@contextlib.contextmanager
def proxy_before(url: str) -> Generator[tuple[CuttingProxy, str]]:
    """Put a proxy before a database; yields it and the URL that leads through it."""
    address = sa.make_url(url)
    assert address.host is not None
    assert address.port is not None
    proxy = CuttingProxy(address.host, address.port)
    proxy.start()
    plain = {"sslmode": "disable", "gssencmode": "disable"}
    through = address.set(port=proxy.port, query={**address.query, **plain})
    try:
        yield proxy, through.render_as_string(hide_password=False)
    finally:
        proxy.stop()
