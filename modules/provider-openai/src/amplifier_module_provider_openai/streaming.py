"""A streamed answer: its blocks announced as they come, and its end insisted on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from amplifier_core.llm_errors import StreamError
from amplifier_kit.calls.block_stream import BlockKind, BlockStream
from amplifier_kit.calls.connections import read_rest
from amplifier_kit.calls.messages import expected
from amplifier_module_provider_openai.failures import PROVIDER, reported_error

_TERMINAL = ("response.completed", "response.incomplete", "response.failed")
_TEXT = ("response.output_text.delta", "response.refusal.delta")
_THINKING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_KINDS: dict[str, BlockKind] = {"reasoning": "thinking", "function_call": "tool_use"}


async def read_answer(
    events: AsyncIterator[object], blocks: BlockStream, model: str
) -> dict[str, Any]:
    """Return the finished response, and announce its blocks meanwhile.

    Raises:
        LLMError: what the vendor reports, or a StreamError when there is no terminal event.
    """
    reader = _Reader(blocks, model)
    while (event := await anext(events, None)) is not None:
        response = await reader.take(cast("dict[str, Any]", event))
        if response is not None:
            await blocks.end_all()
            await read_rest(events)
            return response
    message = "the answer ended before its end: no `response.completed` arrived"
    raise StreamError(message, provider=PROVIDER, model=model)


class _Reader:
    """Follows one answer; a block is announced with the place it will have in the response."""

    def __init__(self, blocks: BlockStream, model: str) -> None:
        self._blocks = blocks
        self._model = model
        self._places: dict[object, int] = {}
        self._finished: list[dict[str, Any]] = []

    async def take(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Announce one event; returns the response when this was the last one."""
        kind: str = event.get("type", "")
        if kind in _TERMINAL:
            # Some servers list the items only here, some only before.
            listed: list[Any] = expected(event["response"].get("output"), list, "output") or []
            return {**event["response"], "output": max(self._finished, listed, key=len)}
        if kind == "error":
            raise reported_error(event, self._model)
        item: dict[str, Any] = event.get("item") or {}
        # Not every server counts the items; then their ids tell them apart.
        key = event.get("output_index", event.get("item_id") or item.get("id"))
        part = (key, event.get("content_index", 0))
        if kind in _TEXT:
            await self._blocks.delta(await self._begin(part, "text"), event["delta"])
        elif kind in _THINKING:
            await self._blocks.delta(await self._begin(key, "thinking"), event["delta"])
        elif kind == "response.reasoning_summary_part.added" and event.get("summary_index"):
            await self._blocks.delta(await self._begin(key, "thinking"), "\n\n")
        elif kind == "response.output_item.added" and item.get("type") != "message":
            await self._begin(key, _KINDS.get(item.get("type", "")), item.get("name"))
        elif kind == "response.content_part.done":
            await self._blocks.end(self._places.get(part, -1))
        elif kind == "response.output_item.done":
            self._finished.append(item)
            await self._blocks.end(self._places.get(key, -1))
        return None

    async def _begin(self, key: object, kind: BlockKind | None, name: str | None = None) -> int:
        """Return the place of a block; a new one is announced, if it is of a kind to be shown."""
        if key not in self._places:
            self._places[key] = len(self._places)
            if kind is not None:
                await self._blocks.start(self._places[key], kind, name)
        return self._places[key]
