"""Convert a response of the API, streamed or complete, to a ChatResponse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from amplifier_core.llm_errors import ContentFilterError, StreamError
from amplifier_core.message_models import (
    ChatResponse,
    ContentBlockUnion,
    ReasoningBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
)
from amplifier_kit.calls.block_stream import BlockKind, BlockStream
from amplifier_kit.calls.connections import read_rest
from amplifier_kit.calls.messages import expected, parse_arguments
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_module_provider_openai.failures import PROVIDER, reported_error

# Reasons for an incomplete answer, as the finish reasons that all providers share.
_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


def chat_response(
    response: dict[str, Any], *, model: str, origin: str, limit: int | None = None
) -> ChatResponse:
    """Return the model's answer; `limit` is the maximum number of output tokens.

    Raises:
        ContentFilterError: the answer is only a refusal, or was filtered completely.
        LLMError: the response failed or is not complete.
    """
    status = response.get("status")
    if status == "failed":
        raise reported_error(response.get("error"), model)
    if status not in ("completed", "incomplete"):
        message = f"the answer ended before its end: its status is `{status}`"
        raise StreamError(message, provider=PROVIDER, model=model)
    details: dict[str, Any] = response.get("incomplete_details") or {}
    usage = usage_of(response.get("usage"))
    # Not every server reports that it stopped at the limit.
    cut_off = status == "incomplete" or bool(limit and usage and usage.output_tokens >= limit)
    cause: str = details.get("reason") or ("max_output_tokens" if cut_off else "")
    content: list[ContentBlockUnion] = []
    for item in expected(response.get("output"), list, "output") or ():
        content += _blocks(item, origin, cut_off=cut_off)
    _raise_refusal(content, cause, model)
    calls = calls_in_response(ChatResponse(content=content))
    finish = _FINISH.get(cause, "length") if cause else "tool_calls" if calls else "stop"
    facts = {"response_id": response.get("id"), "model": response.get("model")}
    return ChatResponse(
        content=content,
        tool_calls=calls or None,
        usage=usage,
        finish_reason=finish,
        metadata={**facts, "finish_reason": details.get("reason") or status},
    )


def _blocks(item: dict[str, Any], origin: str, *, cut_off: bool) -> list[ContentBlockUnion]:
    """Return the blocks of one item; those that only the `origin` can read are marked with it."""
    mark: dict[str, Any] = {"origin": origin}
    match item["type"]:
        case "message":
            return [_text(part, item.get("phase"), mark) for part in _parts(item)]
        case "function_call":
            # A call that was cut before its arguments must not pass for one without any.
            raw = item.get("arguments") or ("{" if item.get("status") == "incomplete" else "")
            arguments = parse_arguments(raw, cut_off=cut_off)
            return [ToolCallBlock(id=item["call_id"], name=item["name"], input=arguments)]
        case "reasoning":
            parts = item.get("summary") or item.get("content") or ()
            thinking = "\n\n".join(part["text"] for part in parts)
            return [ThinkingBlock(thinking=thinking, content=[item], **mark)]
        case _:
            # A call of the vendor's own tools: not shown, but sent back with the conversation.
            return [ReasoningBlock(content=[item], summary=[], **mark)]


def _parts(item: dict[str, Any]) -> list[Any]:
    return expected(item.get("content"), list, "content") or []


def _text(part: dict[str, Any], phase: str | None, mark: dict[str, Any]) -> TextBlock:
    facts = {"phase": phase, "annotations": part.get("annotations"), "refusal": part.get("refusal")}
    extra = {key: value for key, value in facts.items() if value}
    text = expected(part.get("text"), str, "text") or part.get("refusal") or ""
    if extra:
        return TextBlock(text=text, **extra, **mark)
    return TextBlock(text=text)


def _raise_refusal(content: list[ContentBlockUnion], cause: str, model: str) -> None:
    """Raise if the answer is only a refusal, or empty because of the vendor's filter."""
    shown = [block for block in content if isinstance(block, TextBlock | ToolCallBlock)]
    refusals = [refusal for block in shown if (refusal := (block.model_extra or {}).get("refusal"))]
    if len(refusals) == len(shown) and (shown or cause == "content_filter"):
        message = " ".join(refusals) or "the vendor's content filter stopped the answer"
        raise ContentFilterError(message, provider=PROVIDER, model=model)


def usage_of(usage: dict[str, Any] | None) -> Usage | None:
    """Return the reported tokens; `input_tokens` includes cached ones."""
    if not usage:
        return None
    read = usage.get("input_tokens", 0)
    written = usage.get("output_tokens", 0)
    details: dict[str, Any] = usage.get("input_tokens_details") or {}
    spent: dict[str, Any] = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=read,
        output_tokens=written,
        total_tokens=usage.get("total_tokens", read + written),
        reasoning_tokens=spent.get("reasoning_tokens"),
        cache_read_tokens=details.get("cached_tokens"),
        # Models that do not bill cache writes report 0 although they write.
        cache_write_tokens=details.get("cache_write_tokens") or None,
    )


_TERMINAL = ("response.completed", "response.incomplete", "response.failed")
_TEXT = ("response.output_text.delta", "response.refusal.delta")
_THINKING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_KINDS: dict[str, BlockKind] = {"reasoning": "thinking", "function_call": "tool_use"}


async def read_answer(
    events: AsyncIterator[object], blocks: BlockStream, model: str
) -> dict[str, Any]:
    """Return the complete response, and announce its blocks while they arrive.

    Raises:
        LLMError: the vendor's error, or a StreamError if no terminal event arrives.
    """
    reader = _Reader(blocks, model)
    while (event := await anext(events, None)) is not None:
        response = await reader.take(cast("dict[str, Any]", event))
        if response is not None:
            await blocks.end_all()
            # Read to the end, so that the connection can be reused.
            await read_rest(events)
            return response
    message = "the answer ended before its end: no `response.completed` arrived"
    raise StreamError(message, provider=PROVIDER, model=model)


class _Reader:
    """Reads one answer; a block is announced with the index that it will have in the response."""

    def __init__(self, blocks: BlockStream, model: str) -> None:
        self._blocks = blocks
        self._model = model
        self._places: dict[object, int] = {}
        self._finished: list[dict[str, Any]] = []

    async def take(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Process one event; return the response if it was the last one."""
        kind: str = event.get("type", "")
        if kind in _TERMINAL:
            # Some servers send the items only here, some only in earlier events.
            listed: list[Any] = expected(event["response"].get("output"), list, "output") or []
            return {**event["response"], "output": max(self._finished, listed, key=len)}
        if kind == "error":
            raise reported_error(event, self._model)
        item: dict[str, Any] = event.get("item") or {}
        # Not every server sends an index; then the ids distinguish the items.
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
        """Return the index of a block; announce a new one if its kind is shown."""
        if key not in self._places:
            self._places[key] = len(self._places)
            if kind is not None:
                await self._blocks.start(self._places[key], kind, name)
        return self._places[key]
