"""A proxy before a server that can fall silent: it accepts and reads, and answers nothing more."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType

__all__ = ["SilentProxy"]


class SilentProxy:
    """Passes bytes on until `fall_silent`; it runs in a thread of its own."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self._upstream = port
        self._is_silent = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    def fall_silent(self) -> None:
        """Answer nobody from now on, as a network that drops packets."""
        self._is_silent = True

    def __enter__(self) -> SilentProxy:
        self._thread.start()
        serving = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        try:
            await asyncio.gather(
                self._copy(reader, server_writer), self._copy(server_reader, writer)
            )
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            server_writer.transport.abort()
            self._tasks.discard(task)

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            if not self._is_silent:
                target.write(data)
                await target.drain()
        if self._is_silent:
            # Not even that the other side has hung up is passed on.
            await asyncio.Event().wait()
        target.close()
