"""Convert a message of the Messages API, streamed or not, to the kernel's response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from amplifier_core.llm_errors import ContentFilterError, StreamError
from amplifier_core.message_models import ChatResponse, Usage
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_kit.calls.call_costs import PartialAnswer
from amplifier_kit.calls.connections import read_rest
from amplifier_kit.calls.messages import parse_arguments, reading_answer
from amplifier_kit.calls.model_calls import Call
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_module_provider_anthropic.failures import error_in_stream
from amplifier_module_provider_anthropic.to_wire import OWN, THOUGHTS, Wire

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


def to_response(message: Wire, model: str) -> ChatResponse:
    """Return the response; raises `LLMError` for a refusal without text or an unreadable answer."""
    with reading_answer("anthropic", model):
        return _response(message, model)


def _response(message: Wire, model: str) -> ChatResponse:
    reason = message.get("stop_reason")
    finish = _FINISH.get(str(reason), "stop")
    content = list(_content(message["content"], finish, model))
    if finish == "content_filter" and not any(block["type"] == "text" for block in content):
        details: Wire = message.get("stop_details") or {}
        why = details.get("explanation") or details.get("category") or "no reason given"
        text = f"The vendor refused to answer: {why}"
        raise ContentFilterError(text, provider="anthropic", model=model)
    kept = ("id", "model", "stop_sequence", "stop_details")
    facts = {"finish_reason": reason, **{name: message.get(name) for name in kept}}
    response = ChatResponse.model_validate(
        {
            "content": content,
            "usage": _usage(message.get("usage") or {}),
            "finish_reason": finish,
            "metadata": {name: value for name, value in facts.items() if value is not None},
        }
    )
    response.tool_calls = calls_in_response(response) or None
    return response


def _usage(usage: Wire) -> Usage | None:
    """Return the counts; the vendor's input excludes cached tokens, the kernel's includes them."""
    if not usage:
        return None
    read = usage.get("cache_read_input_tokens")
    written = usage.get("cache_creation_input_tokens")
    gross = (usage.get("input_tokens") or 0) + (read or 0) + (written or 0)
    output = usage.get("output_tokens") or 0
    details: Wire = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=gross,
        output_tokens=output,
        total_tokens=gross + output,
        reasoning_tokens=details.get("thinking_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _content(blocks: list[Wire], finish: str, model: str) -> Iterator[Wire]:
    for block in blocks:
        kind = block["type"]
        if kind in THOUGHTS:
            yield {**block, OWN: {}}
        elif kind == "text":
            yield {"type": "text", "text": block["text"], **_extras(block, "text")}
        elif kind != "tool_use":
            # The kernel has no block for it. An empty, internal text carries it, because the vendor
            # wants it back in the next request.
            carried = {**block, **_parsed(block)}
            yield {"type": "text", "text": "", "visibility": "internal", OWN: carried}
        elif finish != "content_filter":  # A call that a refusal cut short must not run.
            is_cut = finish == "length"
            if is_cut and block is blocks[-1] and not block.get("input"):
                # The limit cut it before its arguments; it must not pass for a call without any.
                block = {**block, "input": "{"}
            call = {"type": "tool_call", "id": block["id"], "name": block["name"]}
            extras = _extras(block, "id", "name", "input")
            yield {**call, **_parsed(block, is_cut), **extras}


def _parsed(block: Wire, cut_off: bool = False) -> Wire:
    """Return the parsed input of a block; in a stream it is text."""
    given = block.get("input")
    if given is None:
        return {}
    raw = given if isinstance(given, str) else json.dumps(given)
    return {"input": parse_arguments(raw, cut_off=cut_off)}


def _extras(block: Wire, *known: str) -> Wire:
    names = [name for name in block if block[name] is not None and name not in ("type", *known)]
    if names:
        return {OWN: {name: block[name] for name in names}}
    return {}


# Type of delta: its field, and the field of the block that it extends.
_FRAGMENTS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "input"),
}


async def read_stream(events: AsyncIterator[Any], announce: BlockStream, call: Call) -> Wire:
    """Assemble the message from server-sent events; raises an error event as `LLMError`."""
    model = call.model
    answer = _Answer(announce, model)
    try:
        with reading_answer("anthropic", model):
            async for event in events:
                if event.data:
                    await answer.take(json.loads(event.data))
                if answer.is_complete:
                    break
            message = answer.message()
    except asyncio.CancelledError:
        call.partial = answer.partial()
        raise
    if not answer.is_complete:
        reason = "the answer ended before its end: no `message_stop` arrived"
        raise StreamError(reason, provider="anthropic", model=model)
    await announce.end_all()
    # Read to the end, so that the connection can be reused.
    await read_rest(events)
    return message


class _Answer:
    """A message under construction."""

    def __init__(self, announce: BlockStream, model: str) -> None:
        self.is_complete = False
        self._announce = announce
        self._model = model
        self._message: Wire = {}
        # Each block as it started, and the fragments of its fields since.
        self._blocks: dict[int, tuple[Wire, dict[str, list[str]]]] = {}
        self._ended: set[int] = set()

    async def take(self, event: Wire) -> None:
        """Process the next event; unknown types are ignored."""
        match event["type"]:  # pyright: ignore[reportMatchNotExhaustive] - the API may grow
            case "message_start":
                self._message = event["message"]
            case "content_block_start":
                await self._begin(event["index"], event["content_block"])
            case "content_block_delta":
                await self._continue(event["index"], event["delta"])
            case "content_block_stop":
                self._ended.add(event["index"])
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

    def partial(self) -> PartialAnswer | None:
        """Return what is known of a cancelled answer; None if no usage that can be read came."""
        try:
            usage = _usage(self._message.get("usage") or {})
        except (AttributeError, TypeError, ValueError):
            return None
        kinds = {block["type"] for block, _ in self._blocks.values()}
        # Tools of the vendor add to the input while the answer is written.
        if usage is None or not kinds <= {"text", "tool_use", *THOUGHTS}:
            return None
        if self._message.get("stop_reason"):
            return PartialAnswer(usage, self._received(), "reported")
        # The vendor bills all thinking and shows a summary; the input of a call arrives in bursts.
        is_open = any(
            block["type"] == "tool_use" and index not in self._ended
            for index, (block, _) in self._blocks.items()
        )
        if is_open or not kinds.isdisjoint(THOUGHTS):
            return PartialAnswer(usage, self._received(), "unknown")
        return PartialAnswer(usage, self._received(), "estimated")

    def _received(self) -> int:
        texts = [
            text
            for _, fragments in self._blocks.values()
            for each in fragments.values()
            for text in each
        ]
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)

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
