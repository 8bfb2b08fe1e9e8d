"""Tests that whoever listens sees every answer as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from amplifier_core import ChatRequest, ChatResponse, HookRegistry
from amplifier_core.testing import EventRecorder, MockContextManager, MockTool
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_module_loops.loop_streaming.loop import StreamingLoop
from contract.doubles import Listener
from contract.installer import ScriptedProvider
from contract.requirements import requirement
from contract.turns import Turn, calls


def streamed(turn: Turn) -> list[tuple[str, Any]]:
    """Give the stream events heard: what each is, and its text or kind."""
    found: list[tuple[str, Any]] = []
    for event, data in turn.heard.calls:
        if event.startswith("llm:stream_"):
            kind = event.removeprefix("llm:stream_")
            found.append((kind, data.get("text") or data.get("block_type") or data.get("error")))
    return found


class Streaming(ScriptedProvider):
    """A third party's provider: an async iterator of chunks; an exception among them is raised."""

    def __init__(self, *chunks: Any) -> None:
        super().__init__("Never.")
        self.chunks, self.tools, self.closed = list(chunks), list[Any](), False

    async def stream(self, request: ChatRequest, tools: list[Any]) -> AsyncIterator[dict[str, Any]]:
        self.requests.append(request)
        self.tools.append(tools)
        try:
            for chunk in self.chunks:
                if isinstance(chunk, BaseException):
                    raise chunk
                yield chunk
        finally:
            self.closed = True


@requirement("ORCH-22")
async def test_tokens_of_a_streaming_provider_are_announced_as_they_come(turn_of: Any) -> None:
    turn = await turn_of(tools=[MockTool("t")])
    turn.provider = provider = Streaming(
        {"content": "Let me ", "block_type": "thinking"},
        {"content": "think.", "block_type": "thinking"},
        {"content": "Hello"},
        {"content": ""},
        {"content": " there.", "block_type": "text"},
        {"usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}},
        {"finish_reason": "stop"},
    )

    assert await turn.run() == "Hello there."

    assert streamed(turn) == [
        ("block_start", "thinking"),
        ("block_delta", "Let me "),
        ("block_delta", "think."),
        ("block_end", "thinking"),
        ("block_start", "text"),
        ("block_delta", "Hello"),
        ("block_delta", " there."),
        ("block_end", "text"),
    ]
    deltas = turn.told("llm:stream_block_delta")
    assert [(each["block_index"], each["sequence"]) for each in deltas] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert len({each["request_id"] for each in deltas}) == 1
    assert [spec.name for spec in provider.tools[0]] == ["t"]
    assert [block["type"] for block in turn.context.messages[-1]["content"]] == ["thinking", "text"]
    assert turn.told("provider:response")[0]["usage"]["total_tokens"] == 7
    assert provider.closed


class Thinking(Streaming):
    """A provider whose `stream` takes keywords, as `complete` does."""

    async def stream(
        self, request: ChatRequest, tools: list[Any], **kwargs: Any
    ) -> AsyncIterator[dict[str, Any]]:
        self.options = kwargs
        async for chunk in super().stream(request, tools):
            yield chunk


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_stream_that_takes_keywords_is_asked_for_extended_thinking(
    turn_of: Any, wanted: bool
) -> None:
    turn = await turn_of(extended_thinking=wanted)
    turn.provider = provider = Thinking({"content": "Hello."})

    assert await turn.run() == "Hello."

    assert provider.options == ({"extended_thinking": True} if wanted else {})


async def test_a_stream_without_keywords_is_called_without_extended_thinking(turn_of: Any) -> None:
    turn = await turn_of(extended_thinking=True)
    turn.provider = Streaming({"content": "Hello."})

    assert await turn.run() == "Hello."


async def test_calls_in_a_stream_are_run(turn_of: Any) -> None:
    tool = MockTool("t")
    turn = await turn_of(tools=[tool], max_iterations=1)
    made = [{"id": "c1", "name": "t", "arguments": {"n": 1}}]
    turn.provider = Streaming({"content": "I will."}, {"tool_calls": made})

    await turn.run()

    assert tool.last_input == {"n": 1}
    assert turn.context.messages[1]["tool_calls"] == [
        {"id": "c1", "tool": "t", "arguments": {"n": 1}}
    ]


async def test_a_stream_that_breaks_off_is_announced_and_closed(turn_of: Any) -> None:
    turn = await turn_of()
    turn.provider = provider = Streaming({"content": "Hel"}, ConnectionError("gone"))

    with pytest.raises(ConnectionError, match="gone"):
        await turn.run()

    assert streamed(turn)[-1] == ("aborted", {"type": "ConnectionError", "msg": "gone"})
    assert turn.told("orchestrator:complete")[0]["stop_reason"] == "error"
    assert provider.closed


async def test_a_cancelled_stream_is_closed(turn_of: Any) -> None:
    turn, seen = await turn_of(), asyncio.Event()
    turn.provider = provider = Streaming(*[{"content": "tok "}] * 100_000)

    async def look(event: str, data: dict[str, Any]) -> None:
        seen.set()
        await asyncio.sleep(0)

    turn.hooks.register("llm:stream_block_delta", look)
    async with asyncio.timeout(120):
        running = asyncio.create_task(turn.run())
        await seen.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert provider.closed
    assert streamed(turn)[-1][0] == "aborted"


async def test_an_answer_that_came_whole_is_announced_block_by_block(turn_of: Any) -> None:
    turn = await turn_of(calls("t"), "Done.", tools=[MockTool("t")])

    assert await turn.run() == "Done."

    assert streamed(turn) == [
        ("block_start", "tool_use"),
        ("block_end", "tool_use"),
        ("block_start", "text"),
        ("block_delta", "Done."),
        ("block_end", "text"),
    ]
    assert turn.told("llm:stream_block_start")[0]["name"] == "t"


async def test_blocks_of_every_kind_pass(turn_of: Any) -> None:
    content: list[Any] = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "Yes."},
    ]

    async def answer(_: ChatRequest) -> ChatResponse:
        return ChatResponse(content=content)

    turn = await turn_of(answer)

    assert await turn.run() == "Yes."

    assert [text for kind, text in streamed(turn) if kind == "block_delta"] == ["Hm.", "Yes."]
    assert [each["block_index"] for each in turn.told("llm:stream_block_start")] == [0, 2]


class Announcing(ScriptedProvider):
    """A provider that announces its stream itself."""

    def __init__(self, hooks: HookRegistry) -> None:
        super().__init__("Done.")
        self.hooks = hooks

    async def complete(self, request: ChatRequest, **_: Any) -> ChatResponse:
        stream = BlockStream(self.hooks)
        await stream.start(0, "text")
        await stream.delta(0, "Do")
        await stream.delta(0, "ne.")
        await stream.end(0)
        return await super().complete(request)


async def test_what_a_provider_announces_itself_is_not_announced_again(turn_of: Any) -> None:
    turn = await turn_of()
    turn.provider = Announcing(turn.hooks)

    await turn.run()
    await turn.run()

    texts = [text for kind, text in streamed(turn) if kind == "block_delta"]
    assert texts == ["Do", "ne."] * 2


async def test_nobody_is_listened_for_when_nobody_listens() -> None:
    hooks, provider = HookRegistry(), ScriptedProvider("Hello.")
    during: list[bool] = []

    async def answer(_: ChatRequest) -> Any:
        during.append(hooks.has_handlers("llm:stream_block_start"))
        return ChatResponse(content=[])

    provider.answers = [answer]
    handed: dict[str, Any] = {"context": MockContextManager(), "providers": {"test": provider}}
    await StreamingLoop().execute(prompt="hi", tools={}, hooks=hooks, **handed)
    hooks.register("llm:stream_block_delta", Listener())
    await StreamingLoop().execute(prompt="hi", tools={}, hooks=hooks, **handed)

    assert during == [False, True]
    assert not hooks.has_handlers("llm:stream_block_start")


async def test_a_recorder_can_stand_in_for_the_hooks() -> None:
    recorder = EventRecorder()

    answer = await StreamingLoop().execute(
        prompt="hi",
        context=MockContextManager(),
        providers={"test": Streaming({"content": "Hello."})},
        tools={},
        hooks=recorder,
    )

    assert answer == "Hello."
    assert "llm:stream_block_delta" in [event for event, _ in recorder.events]
    (complete,) = recorder.get_events("orchestrator:complete")
    assert complete[1]["orchestrator"] == "loop-streaming"
