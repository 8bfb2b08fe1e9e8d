"""A streamed answer: announced block by block as it arrives, and put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from amplifier_core.message_models import ChatResponse, ToolCallBlock
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_module_provider_gemini.from_wire import Draft, TextDraft

if TYPE_CHECKING:
    from google.genai import types


async def read_stream(
    chunks: AsyncIterator[types.GenerateContentResponse], draft: Draft, stream: BlockStream
) -> ChatResponse:
    """Take every chunk into `draft`, announce it, and return the answer once it is complete."""
    async for chunk in chunks:
        for part in draft.take(chunk):
            if draft.add(part):
                await stream.end_all()
                await _start(draft, stream)
            if part.text:
                await stream.delta(len(draft.blocks) - 1, part.text)
        if draft.is_complete:
            break
    response = draft.response()
    await stream.end_all()
    return response


async def _start(draft: Draft, stream: BlockStream) -> None:
    index = len(draft.blocks) - 1
    block = draft.blocks[-1]
    if isinstance(block, TextDraft):
        await stream.start(index, "thinking" if block.thought else "text")
    elif isinstance(block, ToolCallBlock):
        await stream.start(index, "tool_use", block.name)
