"""Output while it is written, as events: at a bounded rate, whatever the program does."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

OUTPUT = "tool:output"

_INTERVAL_SECONDS = 0.1
_LONGEST_TEXT_BYTES = 4_096

Emit = Callable[[str, dict[str, Any]], Awaitable[Any]]


class _Pending:
    """What one stream has written since its last event: the newest bytes, and how many were not."""

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
            self._decoder.reset()
        text = self._decoder.decode(bytes(self._bytes), final=is_last)
        skipped = self.skipped
        self.skipped = 0
        self._bytes.clear()
        return text, skipped


class OutputEvents:
    """Announces the output of one command until it is closed."""

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
        """Announce what is left and stop."""
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
