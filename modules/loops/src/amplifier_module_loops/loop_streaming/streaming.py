"""Calls a model and announces its answer as `llm:stream_*` events."""

from __future__ import annotations

from typing import Any

from amplifier_core.interfaces import accepts
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
)
from amplifier_kit.calls.block_stream import (
    BLOCK_DELTA,
    BLOCK_END,
    BLOCK_START,
    BlockKind,
    BlockStream,
)


async def ask_streaming(
    provider: Any, request: ChatRequest, options: dict[str, Any], hooks: Any
) -> ChatResponse:
    """Call a model by its `stream` if it has one, else by `complete`.

    An answer of `complete` that its provider did not stream is announced here, each block whole.
    """
    stream = getattr(provider, "stream", None)
    if callable(stream):
        # `complete` takes any keyword; `stream` is not in the kernel's contract and may not.
        accepted = {name: value for name, value in options.items() if accepts(stream, name)}
        return await _collect(stream(request, tools=request.tools or [], **accepted), hooks)
    hears = getattr(hooks, "has_handlers", None)
    if hears is None or not (hears(BLOCK_DELTA) or hears(BLOCK_START) or hears(BLOCK_END)):
        return await provider.complete(request, **options)
    # A provider may stream inside of `complete`; then its answer must not be announced again.
    began: list[str] = []
    remove = hooks.register(BLOCK_START, _noting(began), name="loop-streaming")
    try:
        response: ChatResponse = await provider.complete(request, **options)
    finally:
        remove()
    if not began:
        await _announce(response, BlockStream(hooks))
    return response


def _noting(began: list[str]) -> Any:
    async def note(event: str, data: dict[str, Any]) -> None:
        began.append(event)

    return note


async def _announce(response: ChatResponse, stream: BlockStream) -> None:
    for index, block in enumerate(response.content):
        if isinstance(block, TextBlock):
            await stream.start(index, "text")
            await stream.delta(index, block.text)
        elif isinstance(block, ThinkingBlock):
            await stream.start(index, "thinking")
            await stream.delta(index, block.thinking)
        elif isinstance(block, ToolCallBlock):
            await stream.start(index, "tool_use", block.name)
        await stream.end(index)


async def _collect(chunks: Any, hooks: Any) -> ChatResponse:
    """Announce the chunks of a stream as they come, and return the answer they add up to."""
    stream = BlockStream(hooks)
    answer = _Answer()
    try:
        async for chunk in chunks:
            text = chunk.get("content")
            block_type = chunk.get("block_type")
            if text and isinstance(text, str):
                kind = "thinking" if block_type == "thinking" else "text"
                if kind != answer.kind:
                    await answer.turn_to(kind, stream)
                answer.parts.append(text)
                await stream.delta(answer.index, text)
            # Most chunks have only text, and a token has to cost little.
            if len(chunk) > (text is not None) + (block_type is not None):
                answer.note(chunk)
        await stream.end_all()
    except BaseException as error:
        await stream.abort(error)
        raise
    finally:
        # Otherwise the generator and its connection stay open until they are collected.
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
    return answer.response()


class _Answer:
    """Collects an answer: blocks of text and thinking, then tool calls."""

    def __init__(self) -> None:
        self.index = -1
        self.kind: BlockKind | None = None
        self.parts: list[str] = []
        self._blocks: list[tuple[BlockKind, list[str]]] = []
        self._calls: list[ToolCall] = []
        self._facts: dict[str, Any] = {}

    async def turn_to(self, kind: BlockKind, stream: BlockStream) -> None:
        """End the open block and begin one of this kind, whose text is appended to `parts`."""
        await stream.end(self.index)
        self.index += 1
        self.kind = kind
        self.parts = []
        self._blocks.append((kind, self.parts))
        await stream.start(self.index, kind)

    def note(self, chunk: dict[str, Any]) -> None:
        """Keep the fields of a chunk other than text."""
        self._calls += [ToolCall.model_validate(call) for call in chunk.get("tool_calls") or ()]
        for key in ("usage", "finish_reason", "metadata"):
            if chunk.get(key) is not None:
                self._facts[key] = chunk[key]

    def response(self) -> ChatResponse:
        """Return the whole answer."""
        content: list[Any] = [_block(kind, "".join(parts)) for kind, parts in self._blocks]
        content += [
            ToolCallBlock(id=call.id, name=call.name, input=call.arguments) for call in self._calls
        ]
        facts = {"tool_calls": self._calls or None, **self._facts}
        return ChatResponse.model_validate({"content": content, **facts})


def _block(kind: BlockKind, text: str) -> TextBlock | ThinkingBlock:
    if kind == "text":
        return TextBlock(text=text)
    return ThinkingBlock(thinking=text)
