"""Convert an answer, streamed or complete, to the kernel's response."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from amplifier_core.llm_errors import ContentFilterError, StreamError
from amplifier_core.message_models import (
    ChatResponse,
    ContentBlockUnion,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
)
from amplifier_kit.calls.block_stream import BlockKind, BlockStream
from amplifier_kit.calls.messages import expected, parse_arguments, reading_answer
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_module_provider_chat_completions.to_wire import CAME_IN

# The server's finish reason to the kernel's; any other means `stop`.
_CALLS = "tool_calls"
_FILTERED = "content_filter"
_FINISH = {_CALLS: _CALLS, "function_call": _CALLS, "length": "length", _FILTERED: _FILTERED}


@dataclass
class Part:
    """The fragments of a text, of reasoning from the field `reasoning`, or of a call of `tool`."""

    fragments: list[str] = field(default_factory=list[str])
    reasoning: str | None = None
    tool: str | None = None
    id: str = ""


@dataclass
class Answer:
    """A received answer, with its parts in the order in which they began."""

    parts: list[Part] = field(default_factory=list[Part])
    refusal: str = ""
    finish: str | None = None
    usage: Any = None

    def response(self, provider: str, model: str) -> ChatResponse:
        """Return the response; raises LLMError if it is incomplete, filtered or unreadable."""
        facts: dict[str, Any] = {"provider": provider, "model": model}
        if self.finish in (None, "error", "abort"):
            reason = self.finish or "no finish reason arrived"
            raise StreamError(f"the answer ended before its end: {reason}", **facts)
        if not self.parts and (self.refusal or self.finish == _FILTERED):
            raise ContentFilterError(self.refusal or "the server filtered the answer", **facts)
        finish = _FINISH.get(self.finish, "stop")
        with reading_answer(provider, model):
            content = [_block(part, finish == "length") for part in self.parts]
            usage = _usage(self.usage)
        if self.refusal:
            content.append(TextBlock(text=self.refusal))
        calls = calls_in_response(ChatResponse(content=content))
        return ChatResponse(
            content=content,
            tool_calls=calls or None,
            usage=usage,
            # Some servers report `stop` although the model calls a tool.
            finish_reason=_CALLS if calls and finish == "stop" else finish,
            metadata={"finish_reason": self.finish},
        )


def field_of(thing: Any, name: str, kind: type = object) -> Any:
    """Return a field of an answer, None if it is missing; raises TypeError for another type."""
    if isinstance(thing, str | float | int | list | dict):
        raise TypeError(f"`{name}` is not to be found in a {type(thing).__name__}")  # pyright: ignore[reportUnknownArgumentType] - from the wire
    return expected(getattr(thing, name, None), kind, name)


def _block(part: Part, cut_off: bool) -> ContentBlockUnion:
    text = "".join(part.fragments)
    if part.tool is not None:
        arguments = parse_arguments(text, cut_off=cut_off)
        return ToolCallBlock(id=part.id, name=part.tool, input=arguments)
    if part.reasoning is None:
        return TextBlock(text=text)
    return ThinkingBlock.model_validate({"thinking": text, CAME_IN: part.reasoning})


def _usage(usage: Any) -> Usage | None:
    """Return the reported tokens; None if the server reports none."""
    if usage is None:
        return None
    prompt: int = field_of(usage, "prompt_tokens") or 0
    completion: int = field_of(usage, "completion_tokens") or 0
    details = [field_of(usage, f"{half}_tokens_details") for half in ("prompt", "completion")]
    return Usage(
        input_tokens=prompt,
        output_tokens=completion,
        total_tokens=prompt + completion,
        reasoning_tokens=field_of(details[1], "reasoning_tokens"),
        cache_read_tokens=field_of(details[0], "cached_tokens"),
        cache_write_tokens=field_of(details[0], "cache_write_tokens"),
    )


# The fields that servers use for reasoning.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class Collector:
    """Assembles the fragments of one answer; an unstreamed answer is one large fragment."""

    def __init__(self, announce: BlockStream | None, provider: str = "", model: str = "") -> None:
        self.answer = Answer()
        self._announce = announce
        self._facts = (provider, model)
        # The server's id and the call, by the server's index.
        self._calls: dict[int, tuple[str, Part]] = {}
        self._taken_ids = {""}

    async def take(self, chunk: Any) -> None:
        """Add a chunk of a stream or a whole completion; raises StreamError if it is unreadable."""
        answer = self.answer
        with reading_answer(*self._facts):
            answer.usage = field_of(chunk, "usage") or answer.usage
            for choice in field_of(chunk, "choices", list) or ():
                await self._take_delta(field_of(choice, "delta") or field_of(choice, "message"))
                answer.finish = field_of(choice, "finish_reason", str) or answer.finish

    async def _take_delta(self, delta: Any) -> None:
        for spelled in _REASONING_FIELDS:
            if reasoning := field_of(delta, spelled, str):
                await self._speak(reasoning, spelled)
                break
        if text := field_of(delta, "content", str):
            await self._speak(text, None)
        self.answer.refusal += field_of(delta, "refusal", str) or ""
        for place, call in enumerate(field_of(delta, "tool_calls", list) or ()):
            await self._call(place, call)

    async def _speak(self, text: str, reasoning: str | None) -> None:
        parts = self.answer.parts
        if not parts or parts[-1].tool is not None or parts[-1].reasoning != reasoning:
            await self._begin(Part(reasoning=reasoning), "thinking" if reasoning else "text")
        parts[-1].fragments.append(text)
        if self._announce is not None:
            await self._announce.delta(len(parts) - 1, text)

    async def _call(self, place: int, fragment: Any) -> None:
        # Calls have an index only in streams.
        index = field_of(fragment, "index", int)
        index = place if index is None else index
        call_id: str = field_of(fragment, "id", str) or ""
        function = field_of(fragment, "function")
        known_id, part = self._calls.get(index, ("", None))
        # Some servers give all calls the index 0 and distinguish them by their ids.
        if part is None or (call_id and known_id and call_id != known_id):
            # Some servers send no ids or the same one twice; results could not be assigned.
            if call_id in self._taken_ids:
                own_id = f"call_{uuid4().hex}"
            else:
                own_id = call_id
            self._taken_ids.add(own_id)
            part = Part(tool=field_of(function, "name", str) or "", id=own_id)
            self._calls[index] = (call_id, part)
            await self._begin(part, "tool_use")
        part.fragments.append(field_of(function, "arguments", str) or "")

    async def _begin(self, part: Part, kind: BlockKind) -> None:
        self.answer.parts.append(part)
        if self._announce is not None:
            await self._announce.end_all()
            await self._announce.start(len(self.answer.parts) - 1, kind, part.tool)
