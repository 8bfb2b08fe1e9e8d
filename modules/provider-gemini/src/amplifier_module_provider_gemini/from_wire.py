"""Assemble an answer from the parts of one chunk or many."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from amplifier_core.correlation import new_request_id
from amplifier_core.llm_errors import ContentFilterError, StreamError
from amplifier_core.message_models import (
    ChatResponse,
    ContentBlockUnion,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
)
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_kit.calls.call_costs import PartialAnswer
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_kit.tools import broken_input
from amplifier_kit.valid_text import valid_text
from amplifier_module_provider_gemini.failures import PROVIDER

if TYPE_CHECKING:
    from google.genai import types

# Extra field of blocks from Gemini, with what has to be sent back:
#   thought_signature  of a call or a picture
#   signed             of a text: [start, end, thought_signature] of each signed piece
#   part               a whole part for which there is no block
MARK = "gemini"

_FINISH = {"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length"}
_BLOCKED = (
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
)
_CALLED = re.compile(r"(?:\bdefault_api\.)?\b([A-Za-z_][\w-]*)\s*\(")
_BAD_CALL = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")


class TextDraft:
    """A growing text, with the positions of its signed pieces."""

    def __init__(self, thought: bool) -> None:
        self.thought = thought
        self._fragments: list[str] = []
        self._length = 0
        self._signed: list[tuple[int, int, str]] = []

    def add(self, text: str, signature: bytes | None) -> None:
        """Add the text of one part."""
        start = self._length
        self._length = self._length + len(text)
        self._fragments.append(text)
        if signature:
            self._signed.append((start, self._length, _encoded(signature)))

    def block(self) -> TextBlock | ThinkingBlock:
        """Return the finished block."""
        text = "".join(self._fragments)
        # Two halves of a surrogate pair become one character, which moves later positions.
        signed = [
            (len(valid_text(text[:start])), len(valid_text(text[:end])), signature)
            for start, end, signature in self._signed
        ]
        text = valid_text(text)
        kept: dict[str, Any] = {MARK: {"signed": signed}}
        if self.thought:
            return ThinkingBlock(thinking=text, **kept)
        return TextBlock(text=text, **(kept if signed else {}))


class Draft:
    """One answer as far as it was received."""

    def __init__(self, model: str) -> None:
        self._facts: dict[str, Any] = {"provider": PROVIDER, "model": model}
        self.blocks: list[TextDraft | ContentBlockUnion] = []
        self._finish: str | None = None
        self._finish_message: str | None = None
        self._blocked: str | None = None
        self._usage: types.GenerateContentResponseUsageMetadata | None = None
        self._metadata: dict[str, Any] = {}

    def take(self, chunk: types.GenerateContentResponse) -> list[types.Part]:
        """Store what a chunk says about the whole answer, and return its parts."""
        # The usage in each chunk is cumulative.
        self._usage = chunk.usage_metadata or self._usage
        named = {"model_version": chunk.model_version, "response_id": chunk.response_id}
        self._metadata |= {key: value for key, value in named.items() if value}
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            self._blocked = chunk.prompt_feedback.block_reason.value
        if not chunk.candidates:
            return []
        candidate = chunk.candidates[0]
        if candidate.finish_reason is not None:
            self._finish = candidate.finish_reason.value
            self._finish_message = candidate.finish_message
        return (candidate.content.parts if candidate.content else None) or []

    @property
    def is_complete(self) -> bool:
        """Whether the answer is complete, without waiting for the server to close the stream."""
        return self._finish is not None and self._usage is not None

    def add(self, part: types.Part) -> bool:
        """Add a part; return whether it began a new block."""
        if part.text is None:
            self.blocks.append(_block(part))
            return True
        if not part.text and not part.thought_signature:
            return False
        last = self.blocks[-1] if self.blocks else None
        if isinstance(last, TextDraft) and last.thought == bool(part.thought):
            last.add(part.text, part.thought_signature)
            return False
        draft = TextDraft(bool(part.thought))
        draft.add(part.text, part.thought_signature)
        self.blocks.append(draft)
        return True

    def partial(self, *, offers_tools: bool) -> PartialAnswer | None:
        """Return what is known of a cancelled answer; None if no usage came."""
        if self._usage is None:
            return None
        usage = _usage(self._usage)
        content = [b.block() if isinstance(b, TextDraft) else b for b in self.blocks]
        received = sum(len(block.model_dump_json().encode()) for block in content)
        if self._finish is not None:
            return PartialAnswer(usage, received, "reported")
        last = self.blocks[-1] if self.blocks else None
        is_thinking = last is None or (isinstance(last, TextDraft) and last.thought)
        # Thoughts may be counted only at the end; a call arrives when all of it is written.
        if is_thinking or offers_tools or self._usage.thoughts_token_count is None:
            return PartialAnswer(usage, received, "unknown")
        return PartialAnswer(usage, received, "estimated")

    def response(self) -> ChatResponse:
        """Return the answer; raises LLMError if it is incomplete or was blocked."""
        content = [b.block() if isinstance(b, TextDraft) else b for b in self.blocks]
        finish = self._checked_finish(content)
        if finish in _BAD_CALL:
            content.append(_unreadable_call(finish, self._finish_message or ""))
        calls = calls_in_response(ChatResponse(content=content))
        normal = _FINISH.get(finish, "content_filter" if finish in _BLOCKED else finish.lower())
        if finish in _BAD_CALL:
            normal = "tool_calls"
        return ChatResponse(
            content=content,
            tool_calls=calls or None,
            usage=None if self._usage is None else _usage(self._usage),
            finish_reason="tool_calls" if calls and normal == "stop" else normal,
            metadata={**self._metadata, "finish_reason": finish},
        )

    def _checked_finish(self, content: list[ContentBlockUnion]) -> str:
        finish = self._finish
        says = self._finish_message
        if finish is None:
            if self._blocked is not None:
                raise ContentFilterError(f"the prompt was blocked ({self._blocked})", **self._facts)
            raise StreamError("the answer ended before its end: without a reason", **self._facts)
        is_named = finish in _FINISH or finish in _BAD_CALL
        if not is_named and all(isinstance(each, ThinkingBlock) for each in content):
            kind = ContentFilterError if finish in _BLOCKED else StreamError
            raise kind(f"no answer came ({finish}): {says or 'no reason given'}", **self._facts)
        return finish


def _unreadable_call(finish: str, text: str) -> ToolCallBlock:
    """Return a call that the server could not parse, with the name from the server's message."""
    # As a call, so that the loop answers it with an error and the model can correct it.
    named = _CALLED.search(text)
    name = named.group(1) if named else "unreadable_call"
    problem = f"could not be read ({finish})"
    call_id = f"call_{new_request_id()}"
    return ToolCallBlock(id=call_id, name=name, input=broken_input(text, problem))


def _block(part: types.Part) -> ContentBlockUnion:
    """Return the block for a part without text."""
    signature = part.thought_signature
    kept: dict[str, Any] = {MARK: {"thought_signature": _encoded(signature)} if signature else {}}
    call = part.function_call
    blob = part.inline_data
    if call is not None:
        call_id = call.id or f"call_{new_request_id()}"
        return ToolCallBlock(id=call_id, name=call.name or "", input=call.args or {}, **kept)
    if blob is not None and blob.data and (blob.mime_type or "").startswith("image/"):
        source = {"type": "base64", "media_type": blob.mime_type, "data": _encoded(blob.data)}
        return ImageBlock(source=source, **kept)
    kept[MARK] = {"part": part.model_dump(mode="json", by_alias=True, exclude_none=True)}
    return TextBlock(text="", **kept)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _usage(counts: types.GenerateContentResponseUsageMetadata) -> Usage:
    thoughts = counts.thoughts_token_count or 0
    asked = (counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0)
    answered = (counts.candidates_token_count or 0) + thoughts
    return Usage(
        input_tokens=asked,
        output_tokens=answered,
        total_tokens=counts.total_token_count or asked + answered,
        reasoning_tokens=thoughts,
        # The API omits counts that are zero.
        cache_read_tokens=counts.cached_content_token_count or 0,
    )


async def read_stream(
    chunks: AsyncIterator[types.GenerateContentResponse], draft: Draft, stream: BlockStream
) -> ChatResponse:
    """Add every chunk to `draft`, announce it, and return the complete answer."""
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
