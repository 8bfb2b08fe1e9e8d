"""Streaming: an answer announced block by block and word by word."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_core.message_models import (
    ChatResponse,
    ContentBlockUnion,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

BLOCK_START = "llm:stream_block_start"
BLOCK_DELTA = "llm:stream_block_delta"
BLOCK_END = "llm:stream_block_end"
ABORTED = "llm:stream_aborted"

Emit = Callable[[str, dict[str, Any]], Awaitable[Any]]

_FRAGMENT = re.compile(r"\S+\s*|\s+")


class Stream:
    """One streamed answer; every event carries its request id."""

    def __init__(self, emit: Emit, request_id: str) -> None:
        self._emit = emit
        self._call = {"request_id": request_id}
        self._sent_any = False

    async def play(self, response: ChatResponse) -> None:
        """Announce every block of the response."""
        for index, block in enumerate(response.content):
            kind, text = _kind_and_text(block)
            if kind is None:
                continue
            place = {**self._call, "block_index": index, "block_type": kind}
            named = {"name": block.name} if isinstance(block, ToolCallBlock) else {}
            await self._emit(BLOCK_START, {**place, **named})
            for sequence, fragment in enumerate(_FRAGMENT.findall(text)):
                self._sent_any = True
                await self._emit(BLOCK_DELTA, {**place, "sequence": sequence, "text": fragment})
            await self._emit(BLOCK_END, place)

    async def abort(self, error: BaseException) -> None:
        """Announce that the answer broke off, if anybody has seen a part of it."""
        if self._sent_any:
            failure = {"type": type(error).__name__, "msg": str(error)}
            await self._emit(ABORTED, {**self._call, "error": failure})


def _kind_and_text(block: ContentBlockUnion) -> tuple[str | None, str]:
    if isinstance(block, TextBlock):
        return "text", block.text
    if isinstance(block, ThinkingBlock):
        return "thinking", block.thinking
    return ("tool_use" if isinstance(block, ToolCallBlock) else None), ""
