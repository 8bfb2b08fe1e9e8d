"""Output of a program: its first and last bytes, and events at a bounded rate while it runs."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any


class Capture:
    """Keeps the first and the last bytes of a stream in bounded memory, however long it is."""

    __slots__ = ("_half", "_head", "_tail", "total")

    def __init__(self, limit: int) -> None:
        """`limit` is the number of bytes kept."""
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half :]
        del self._tail[: max(0, len(self._tail) - self._half)]

    @property
    def left_out(self) -> int:
        """How many bytes in the middle are not kept."""
        return self.total - len(self._head) - len(self._tail)

    def text(self) -> str:
        """Return what was kept; where bytes are missing, a line says how many."""
        if not self.left_out:
            return (self._head + self._tail).decode("utf-8", errors="replace")
        head = self._head.decode("utf-8", errors="replace")
        tail = self._tail.decode("utf-8", errors="replace")
        return f"{head}\n[... {self.left_out} of {self.total} bytes left out ...]\n{tail}"


OUTPUT = "tool:output"

_INTERVAL_SECONDS = 0.1
_LONGEST_TEXT_BYTES = 4_096

Emit = Callable[[str, dict[str, Any]], Awaitable[Any]]


class _Pending:
    """The newest bytes of a stream since its last event, and how many bytes were skipped."""

    __slots__ = ("_bytes", "_decoder", "skipped")

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.skipped = 0

    def add(self, data: bytes) -> None:
        self._bytes += data[-_LONGEST_TEXT_BYTES:]
        excess = max(0, len(self._bytes) - _LONGEST_TEXT_BYTES)
        del self._bytes[:excess]
        self.skipped += excess + max(0, len(data) - _LONGEST_TEXT_BYTES)

    def take(self, *, is_last: bool) -> tuple[str, int]:
        if self.skipped:
            # Half a character from before the gap must not be joined with what follows it.
            self._decoder.reset()
        text = self._decoder.decode(bytes(self._bytes), final=is_last)
        skipped = self.skipped
        self.skipped = 0
        self._bytes.clear()
        return text, skipped


class OutputEvents:
    """Emits events with the output of one command until it is closed."""

    __slots__ = ("_closed", "_emit", "_facts", "_streams", "_task", "_woken")

    def __init__(self, emit: Emit, facts: dict[str, Any]) -> None:
        self._emit = emit
        self._facts = facts
        self._streams = {"stdout": _Pending(), "stderr": _Pending()}
        self._woken, self._closed = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def add(self, stream: str, data: bytes) -> None:
        """Take bytes of `stream`; never waits."""
        self._streams[stream].add(data)
        self._woken.set()

    async def close(self) -> None:
        """Emit the rest and stop."""
        self._closed.set()
        self._woken.set()
        await self._task
        await self._flush(is_last=True)

    async def _run(self) -> None:
        while not self._closed.is_set():
            await self._woken.wait()
            self._woken.clear()
            await self._flush(is_last=False)
            with suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL_SECONDS):
                    await self._closed.wait()

    async def _flush(self, *, is_last: bool) -> None:
        for stream, pending in self._streams.items():
            text, skipped = pending.take(is_last=is_last)
            if text or skipped:
                facts = {**self._facts, "stream": stream, "text": text, "skipped_bytes": skipped}
                await self._emit(OUTPUT, facts)
