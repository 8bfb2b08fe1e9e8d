"""A streamed answer: its events become one message, and are announced on the way."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from amplifier_core.llm_errors import StreamError
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_kit.calls.connections import read_rest
from amplifier_kit.calls.messages import reading_answer
from amplifier_module_provider_anthropic.failures import error_in_stream
from amplifier_module_provider_anthropic.to_wire import Wire

# delta: its field, and the field of the block that it continues
_FRAGMENTS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "input"),
}


async def read_stream(events: AsyncIterator[Any], announce: BlockStream, model: str) -> Wire:
    """Return the message that server-sent events make up; an error among them is raised."""
    answer = _Answer(announce, model)
    with reading_answer("anthropic", model):
        async for event in events:
            if event.data:
                await answer.take(json.loads(event.data))
            if answer.is_complete:
                break
        message = answer.message()
    if not answer.is_complete:
        reason = "the answer ended before its end: no `message_stop` arrived"
        raise StreamError(reason, provider="anthropic", model=model)
    await announce.end_all()
    await read_rest(events)
    return message


class _Answer:
    """A message under construction."""

    def __init__(self, announce: BlockStream, model: str) -> None:
        self.is_complete = False
        self._announce = announce
        self._model = model
        self._message: Wire = {}
        # Each block as it began, and the fragments of its fields that came since.
        self._blocks: dict[int, tuple[Wire, dict[str, list[str]]]] = {}

    async def take(self, event: Wire) -> None:
        """Take the next event; kinds that nobody here knows are passed over."""
        match event["type"]:  # pyright: ignore[reportMatchNotExhaustive] - the API may grow
            case "message_start":
                self._message = event["message"]
            case "content_block_start":
                await self._begin(event["index"], event["content_block"])
            case "content_block_delta":
                await self._continue(event["index"], event["delta"])
            case "content_block_stop":
                await self._announce.end(event["index"])
            case "message_delta":
                counts: Wire = event.get("usage") or {}
                usage: Wire = self._message.get("usage") or {}
                usage |= {name: count for name, count in counts.items() if count is not None}
                self._message |= {**event["delta"], "usage": usage}
            case "message_stop":
                self.is_complete = True
            case "error":
                raise error_in_stream(event["error"], self._model)

    def message(self) -> Wire:
        """Return the whole message."""
        content = [
            {**block, **{name: "".join(texts) for name, texts in fragments.items()}}
            for _, (block, fragments) in sorted(self._blocks.items())
        ]
        return {**self._message, "content": content}

    async def _begin(self, index: int, block: Wire) -> None:
        kind = block["type"]
        fragments: dict[str, list[str]] = {}
        self._blocks[index] = block, fragments
        if kind == "tool_use":
            await self._announce.start(index, "tool_use", block["name"])
        elif kind in ("text", "thinking"):
            fragments[kind] = [block[kind]]
            await self._announce.start(index, kind)
            await self._announce.delta(index, block[kind])

    async def _continue(self, index: int, delta: Wire) -> None:
        block, fragments = self._blocks[index]
        kind = delta["type"]
        if kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        elif kind in _FRAGMENTS:
            source, target = _FRAGMENTS[kind]
            fragments.setdefault(target, []).append(delta[source])
            if target == block["type"]:
                await self._announce.delta(index, delta[source])
