"""A real model answers, streamed, through every provider whose format its server speaks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import ChatRequest, ChatResponse, Message, TextBlock
from amplifier_core.llm_errors import ContextLengthError
from amplifier_core.testing import wait_for
from real_model.running import RealModel

pytestmark = pytest.mark.realmodel

PROVIDERS = ("provider-chat-completions", "provider-openai", "provider-anthropic")
QUESTION = "What is the capital of France?"

every_provider = pytest.mark.parametrize("module", PROVIDERS)


def request(text: str, **fields: Any) -> ChatRequest:
    return ChatRequest(messages=[Message(role="user", content=text)], **fields)


def provider_of(session: Any) -> Any:
    [provider] = session.coordinator.get("providers").values()
    return provider


@every_provider
async def test_a_turn_is_answered_word_by_word(open_session: Any, module: str) -> None:
    session, recorder = await open_session(module)

    async with asyncio.timeout(120):
        answer = await session.execute(QUESTION)

    names = [name for name, _ in recorder.events]
    deltas = [data for _, data in recorder.get_events("llm:stream_block_delta")]
    assert len(deltas) > 1
    assert [delta["sequence"] for delta in deltas] == list(range(len(deltas)))
    assert "".join(delta["text"] for delta in deltas) == answer
    assert names[0] == "llm:request"
    assert names[1] == "llm:stream_block_start"
    assert names[-2:] == ["llm:stream_block_end", "llm:response"]
    assert "llm:stream_aborted" not in names


@every_provider
async def test_streamed_or_not_the_answer_is_the_same(open_session: Any, module: str) -> None:
    session, recorder = await open_session(module)
    provider = provider_of(session)

    async with asyncio.timeout(120):
        whole: ChatResponse = await provider.complete(request(QUESTION, metadata={"stream": False}))
        assert recorder.get_events("llm:stream_block_delta") == []
        streamed: ChatResponse = await provider.complete(request(QUESTION))

    [block] = streamed.content
    assert isinstance(block, TextBlock)
    assert streamed.content == whole.content
    assert streamed.finish_reason == whole.finish_reason == "stop"


@every_provider
async def test_usage_is_what_the_server_counted(open_session: Any, module: str) -> None:
    """A longer question has more tokens, and the announced counts are those of the response."""
    session, recorder = await open_session(module, max_output_tokens=8)
    provider = provider_of(session)

    async with asyncio.timeout(120):
        short: ChatResponse = await provider.complete(request(QUESTION))
        longer: ChatResponse = await provider.complete(request(f"{'Please. ' * 50}{QUESTION}"))

    assert short.usage is not None
    assert longer.usage is not None
    assert 0 < short.usage.input_tokens < longer.usage.input_tokens
    assert 0 < short.usage.output_tokens <= 8
    announced = [data["usage"] for _, data in recorder.get_events("llm:response")]
    for usage, response in zip(announced, (short, longer), strict=True):
        assert response.usage is not None
        assert usage["input_tokens"] == response.usage.input_tokens
        assert usage["output_tokens"] == response.usage.output_tokens


# On the Responses route this server calls a cut answer complete.
@pytest.mark.parametrize("module", [each for each in PROVIDERS if each != "provider-openai"])
async def test_an_answer_that_reaches_its_limit_says_so(open_session: Any, module: str) -> None:
    session, _ = await open_session(module, max_output_tokens=5)

    async with asyncio.timeout(120):
        response = await provider_of(session).complete(request("Tell me a long story."))

    assert response.finish_reason == "length"
    assert response.usage.output_tokens == 5


@every_provider
async def test_a_prompt_that_is_too_long_is_refused_by_the_server(
    open_session: Any, module: str, model: RealModel
) -> None:
    session, _ = await open_session(module)

    async with asyncio.timeout(120):
        with pytest.raises(ContextLengthError, match=str(model.window)):
            await provider_of(session).complete(request("word " * (model.window + 100)))


async def test_a_conversation_that_overflows_the_server_is_shortened(
    open_session: Any, model: RealModel
) -> None:
    """The provider was told of a window that the server does not have."""
    session, recorder = await open_session(
        "provider-openai", context_window=100_000, max_output_tokens=8
    )
    session.coordinator.hooks.register("context:overflow", recorder.record)
    context = session.coordinator.get("context")
    words = "word " * (model.window // 10)
    for _ in range(5):
        await context.add_message({"role": "user", "content": words})
        await context.add_message({"role": "assistant", "content": words})

    async with asyncio.timeout(120):
        answer = await session.execute(QUESTION)

    assert answer
    assert recorder.get_events("context:overflow")
    [usage] = [d["usage"] for _, d in recorder.get_events("llm:response") if d["status"] == "ok"]
    assert usage["input_tokens"] < model.window
    assert len(await context.get_messages()) == 12


@every_provider
async def test_a_cancelled_answer_frees_the_server(
    open_session: Any, module: str, model: RealModel
) -> None:
    session, recorder = await open_session(module, max_output_tokens=1_000)
    provider = provider_of(session)
    call = asyncio.create_task(provider.complete(request("Write a long story about a dog.")))
    async with asyncio.timeout(120):
        assert await wait_for(lambda: bool(recorder.get_events("llm:stream_block_delta")), 60)
        assert await asyncio.to_thread(model.is_busy)

        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        while await asyncio.to_thread(model.is_busy):
            pass
        response = await provider.complete(request(QUESTION, max_output_tokens=5))

    assert len(recorder.get_events("llm:stream_aborted")) == 1
    assert response.usage.output_tokens > 0


async def test_the_window_is_the_one_that_the_server_has(
    open_session: Any, model: RealModel
) -> None:
    session, _ = await open_session("provider-chat-completions", context_window=None)
    provider = provider_of(session)

    async with asyncio.timeout(120):
        await provider.complete(request(QUESTION, max_output_tokens=5))

    assert provider.get_info().defaults["context_window"] == model.window
