"""Announcing a streamed answer to the hooks: `llm:stream_*` events, block by block."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal

from amplifier_core.correlation import new_request_id
from amplifier_core.errors import error_text
from amplifier_core.message_models import ChatResponse, TextBlock, ThinkingBlock, ToolCallBlock
from amplifier_kit.valid_text import TextStream

BLOCK_START = "llm:stream_block_start"
BLOCK_DELTA = "llm:stream_block_delta"
BLOCK_END = "llm:stream_block_end"
ABORTED = "llm:stream_aborted"
STREAM_EVENTS = (BLOCK_START, BLOCK_DELTA, BLOCK_END, ABORTED)

MOST_ANNOUNCED_CALLS = 128
"""Tool calls of one answer that are announced; each costs as much as running a short hook chain."""

BlockKind = Literal["text", "thinking", "tool_use"]
_WORD = re.compile(r"\S+\s*|\s+")


class _Nothing:
    """An awaitable that is done immediately and, unlike a coroutine, can be awaited again."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


_NOTHING = _Nothing()


def _yes(event: str) -> bool:
    return True


class BlockStream:
    """Announces the blocks of one answer; all its events carry one `request_id`.

    Block indices are 0-based over all blocks of the answer. Fragments of tool input are not
    announced, nor are calls after the first `MOST_ANNOUNCED_CALLS`. No data is built for events
    without handlers.
    """

    __slots__ = ("_calls", "_emit", "_hears", "_open", "_sent_any", "request_id")

    def __init__(self, hooks: Any, request_id: str | None = None) -> None:
        self.request_id = request_id or new_request_id()
        self._emit = hooks.emit
        self._hears: Callable[[str], bool] = getattr(hooks, "has_handlers", _yes)
        # For each open block: its kind, its next sequence number, and a TextStream as soon as a
        # fragment needs one.
        self._open: dict[int, list[Any]] = {}
        self._sent_any = False
        self._calls = 0

    async def start(self, index: int, kind: BlockKind, name: str | None = None) -> None:
        """Announce that block `index` begins; `name` is the tool of a `tool_use` block."""
        if kind == "tool_use":
            self._calls += 1
            if self._calls > MOST_ANNOUNCED_CALLS:
                return
        self._open[index] = [kind, 0, None]
        if self._hears(BLOCK_START):
            facts = {"request_id": self.request_id, "block_index": index, "block_type": kind}
            await self._emit(BLOCK_START, facts if name is None else {**facts, "name": name})

    def delta(self, index: int, text: str) -> Awaitable[object]:
        """Announce a fragment of block `index`, unless it is empty; await the result.

        Half of a surrogate pair waits for its other half. This is not a coroutine function,
        because it is called for every token.

        Raises:
            TypeError: the server sent something that is not a text.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - from the wire
            raise TypeError(f"a piece of text is a {type(text).__name__}")
        block = self._open.get(index)
        if block is None:
            return _NOTHING
        # Most fragments are plain ASCII and skip this.
        if block[2] is not None or not text.isascii() or "\0" in text:
            block[2] = block[2] or TextStream()
            text = block[2].feed(text)
        return self._announce(index, block, text)

    def _announce(self, index: int, block: list[Any], text: str) -> Awaitable[object]:
        if not text:
            return _NOTHING
        self._sent_any = True
        sequence = block[1]
        block[1] = sequence + 1
        if not self._hears(BLOCK_DELTA):
            return _NOTHING
        facts = {
            "request_id": self.request_id,
            "block_index": index,
            "block_type": block[0],
            "sequence": sequence,
            "text": text,
        }
        return self._emit(BLOCK_DELTA, facts)

    async def end(self, index: int) -> None:
        """Announce that block `index` is complete; ignored for a block that never began."""
        block = self._open.pop(index, None)
        if block is not None and block[2] is not None:
            await self._announce(index, block, block[2].rest())
        if block is not None and self._hears(BLOCK_END):
            facts = {"request_id": self.request_id, "block_index": index, "block_type": block[0]}
            await self._emit(BLOCK_END, facts)

    async def end_all(self) -> None:
        """Announce the end of every block that is still open."""
        for index in sorted(self._open):
            await self.end(index)

    async def abort(self, error: BaseException) -> None:
        """Announce that the answer was aborted, if any part of it was announced."""
        if self._sent_any and self._hears(ABORTED):
            failure = {"type": type(error).__name__, "msg": error_text(error)}
            await self._emit(ABORTED, {"request_id": self.request_id, "error": failure})


async def stream_response(response: ChatResponse, stream: BlockStream) -> None:
    """Announce an answer that is already complete: its text and thinking word by word."""
    for index, block in enumerate(response.content):
        if isinstance(block, TextBlock):
            await stream.start(index, "text")
            await _stream_words(block.text, index, stream)
        elif isinstance(block, ThinkingBlock):
            await stream.start(index, "thinking")
            await _stream_words(block.thinking, index, stream)
        elif isinstance(block, ToolCallBlock):
            await stream.start(index, "tool_use", block.name)
        await stream.end(index)


async def _stream_words(text: str, index: int, stream: BlockStream) -> None:
    for word in _WORD.findall(text):
        await stream.delta(index, word)
