"""Streaming: an answer announced block by block and word by word."""

from __future__ import annotations

import re

from amplifier_core.message_models import ChatResponse, TextBlock, ThinkingBlock, ToolCallBlock
from amplifier_kit.calls.block_stream import BlockStream

_FRAGMENT = re.compile(r"\S+\s*|\s+")


async def play(response: ChatResponse, stream: BlockStream) -> None:
    """Announce every block of the response."""
    for index, block in enumerate(response.content):
        if isinstance(block, TextBlock):
            await stream.start(index, "text")
            await _play_text(block.text, index, stream)
        elif isinstance(block, ThinkingBlock):
            await stream.start(index, "thinking")
            await _play_text(block.thinking, index, stream)
        elif isinstance(block, ToolCallBlock):
            await stream.start(index, "tool_use", block.name)
        await stream.end(index)


async def _play_text(text: str, index: int, stream: BlockStream) -> None:
    for fragment in _FRAGMENT.findall(text):
        await stream.delta(index, fragment)
