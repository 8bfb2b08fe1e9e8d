"""What an independent judge says of our providers: llmock breaks the wire and gives its verdict.

llmock sees every attempt and its timing. Its strict verdict fails a client that ignores
`retry-after`, retries what cannot succeed, accepts half a stream, does not back off, gives up
at once, or sits through a stall.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from llmock.pytest_plugin import LLMock

from amplifier_core import AmplifierSession, ChatRequest, ChatResponse, Message, MockTool, ToolSpec
from amplifier_core.llm_errors import (
    AccessDeniedError,
    AuthenticationError,
    ContextLengthError,
    InvalidRequestError,
    LLMError,
    NotFoundError,
    ProviderUnavailableError,
)
from amplifier_kit.tools import broken_problem
from wire.vendor import Vendor

# Waits are what is judged here: together they take minutes.
pytestmark = pytest.mark.slow

# Long enough that every format has sent some of it, and not all, when a fault strikes.
TEXT = "One two three four five six seven eight nine ten eleven twelve."
CITY: dict[str, Any] = {"city": "Saint-Denis de la Réunion"}
WEATHER = ToolSpec(
    name="weather",
    description="Tell the weather",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)

# Whom llmock plays for each provider.
PLAYED = {
    "provider-anthropic": "anthropic",
    "provider-openai": "openai",
    "provider-chat-completions": "openai",
    "provider-gemini": "gemini",
}

Open = Callable[..., Awaitable[AmplifierSession]]

streamed_or_not = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.fixture(autouse=True)
def chance_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between attempts are spread at random; the judge wants to see them grow."""

    def middle(low: float, high: float) -> float:
        return (low + high) / 2

    monkeypatch.setattr("amplifier_core.retry.random.uniform", middle)


@pytest.fixture
async def open_session(vendor: Vendor, llmock: LLMock) -> AsyncGenerator[Open]:
    """Open a session with the provider under test, pointed at llmock.

    What a provider asked while it was mounted is forgotten; faults are scripted afterwards.
    """
    async with AsyncExitStack() as sessions:

        async def open_one(**config: Any) -> AmplifierSession:
            settings = {
                **vendor.config(""),
                "base_url": llmock.base_url(PLAYED[vendor.module_id]),
                "context_window": 100_000,
                "min_retry_delay_seconds": 0.06,
                **config,
            }
            plan = {
                "session": {"orchestrator": "loop-basic", "context": "context-simple"},
                "providers": [{"module": vendor.module_id, "config": settings}],
            }
            session = await sessions.enter_async_context(AmplifierSession(plan))
            llmock.reset()
            return session

        yield open_one


async def ask(session: AmplifierSession, *, stream: bool = True, **fields: Any) -> ChatResponse:
    [provider] = session.coordinator.get("providers").values()
    fields = {"messages": [Message(role="user", content="Count to twelve.")], **fields}
    async with asyncio.timeout(120):
        return await provider.complete(ChatRequest(metadata={"stream": stream}, **fields))


def text_of(response: ChatResponse) -> str:
    return "".join(block.text for block in response.content if block.type == "text")


@streamed_or_not
@pytest.mark.parametrize("status", [408, 409, 500, 502])
async def test_a_passing_failure_is_retried_with_growing_waits(
    open_session: Open, llmock: LLMock, status: int, stream: bool
) -> None:
    session = await open_session()
    llmock.fail(status, times=3).reply(TEXT)

    response = await ask(session, stream=stream)

    assert text_of(response) == TEXT
    assert [each.status for each in llmock.requests] == [status] * 3 + [200]
    llmock.assert_resilient(strict=True)


@streamed_or_not
@pytest.mark.parametrize("status", [429, 503, 504, 529])
async def test_the_wait_that_a_server_asks_for_is_kept(
    open_session: Open, llmock: LLMock, status: int, stream: bool
) -> None:
    session = await open_session()
    llmock.fail(status, times=2, retry_after=0.25).reply(TEXT)

    response = await ask(session, stream=stream)

    assert text_of(response) == TEXT
    assert [each.status for each in llmock.requests] == [status] * 2 + [200]
    llmock.assert_resilient(strict=True)


@streamed_or_not
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequestError),
        (401, AuthenticationError),
        (403, AccessDeniedError),
        (404, NotFoundError),
        (422, InvalidRequestError),
    ],
)
async def test_what_cannot_succeed_is_not_retried(
    open_session: Open, llmock: LLMock, status: int, kind: type[LLMError], stream: bool
) -> None:
    session = await open_session()
    llmock.fail(status)

    with pytest.raises(kind):
        await ask(session, stream=stream)

    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


@streamed_or_not
async def test_an_outage_ends_after_a_few_attempts(
    open_session: Open, llmock: LLMock, stream: bool
) -> None:
    session = await open_session(max_retries=2)
    llmock.fail(503, times=None, retry_after=0.1)

    with pytest.raises(ProviderUnavailableError):
        await ask(session, stream=stream)

    assert len(llmock.requests) == 3
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("fault", ["disconnect", "truncate", "corrupt", "stall"])
async def test_a_broken_stream_is_never_taken_for_an_answer(
    open_session: Open, llmock: LLMock, fault: str
) -> None:
    session = await open_session(idle_timeout_seconds=0.4)
    # Paced, so that the server is still at it when the client turns away.
    getattr(llmock.pace(20), fault)(after_chunks=5).reply(TEXT, times=2)

    response = await ask(session)

    assert text_of(response) == TEXT
    assert len(llmock.requests) == 2
    llmock.assert_resilient(strict=True)


async def test_a_slow_first_token_is_waited_for(open_session: Open, llmock: LLMock) -> None:
    session = await open_session(idle_timeout_seconds=5)
    llmock.slow_first_token(0.5).reply(TEXT)

    assert text_of(await ask(session)) == TEXT

    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


@streamed_or_not
async def test_a_server_that_says_nothing_is_asked_again(
    open_session: Open, llmock: LLMock, stream: bool
) -> None:
    session = await open_session(idle_timeout_seconds=0.4)
    llmock.delay(1.2).reply(TEXT, times=2)

    response = await ask(session, stream=stream)

    assert text_of(response) == TEXT
    llmock.assert_resilient(strict=True)


@streamed_or_not
async def test_a_prompt_that_is_too_long_is_not_sent_again(
    open_session: Open, llmock: LLMock, stream: bool
) -> None:
    session = await open_session()
    llmock.limits(context_window=50)
    long = [Message(role="user", content="word " * 200)]

    with pytest.raises(ContextLengthError):
        await ask(session, stream=stream, messages=long)

    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


async def test_an_overflow_without_numbers_is_known_too(open_session: Open, llmock: LLMock) -> None:
    session = await open_session()
    llmock.context_overflow()

    with pytest.raises(ContextLengthError):
        await ask(session)

    llmock.assert_resilient(strict=True)


@streamed_or_not
async def test_half_of_the_arguments_are_never_a_call(
    open_session: Open, vendor: Vendor, llmock: LLMock, stream: bool
) -> None:
    """llmock can only cut what travels as text; elsewhere it sends none, which is valid."""
    played = PLAYED[vendor.module_id]
    as_text = played == "openai" or (played == "anthropic" and stream)
    session = await open_session()
    llmock.call_tool("weather", CITY, times=2).break_tool_call("malformed_arguments")

    response = await ask(session, stream=stream, tools=[WEATHER])

    [call] = response.tool_calls or []
    assert "city" not in call.arguments
    # The model reads what was wrong; asking for the whole answer again would be paid for again.
    assert (broken_problem(call.arguments) is not None) is as_text
    assert len(llmock.requests) == 1


async def test_a_tool_that_nobody_offered_gets_an_error_and_the_turn_goes_on(
    open_session: Open, llmock: LLMock
) -> None:
    session = await open_session()
    llmock.break_tool_call("unknown_tool")
    tool = MockTool("weather")
    await session.coordinator.mount("tools", tool)

    async with asyncio.timeout(120):
        answer = await session.execute("What is the weather?")

    assert answer
    assert tool.call_count == 0
    assert len(llmock.requests) == 2
    llmock.assert_resilient(strict=True)


async def test_a_spent_quota_is_waited_for(open_session: Open, llmock: LLMock) -> None:
    """The second request needs a little more than what the first one left."""
    session = await open_session(max_output_tokens=6_000)
    llmock.limits(tpm=12_000).reply(TEXT, times=None)

    for _ in range(2):
        assert text_of(await ask(session)) == TEXT

    assert [each.status for each in llmock.requests] == [200, 429, 200]
    llmock.assert_resilient(strict=True)
