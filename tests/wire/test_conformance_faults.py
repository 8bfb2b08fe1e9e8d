"""Faults: streams that break, servers that fall silent, and callers who leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from amplifier_core.llm_errors import (
    LLMTimeoutError,
    NetworkError,
    ProviderUnavailableError,
    StreamError,
)
from wire.conftest import Connect
from wire.line import LIMIT_SECONDS, READ_FILE, text_of
from wire.vendor import (
    Answer,
    Cut,
    Drop,
    ErrorEvent,
    Fault,
    Garble,
    HalfOpen,
    Refuse,
    Slow,
    Stall,
    ToolUse,
    Vendor,
)

WORDS = Answer.of("alpha beta gamma delta")
ABORTED = "llm:stream_aborted"
BREAKING: list[Callable[[Answer, str], Fault]] = [Cut, Drop, Garble]
USAGE_TOO = {"include_usage": True}
SILENT = {"idle_timeout_seconds": 0.3, "max_retries": 0}


def named(fault: Callable[[Answer, str], Fault]) -> str:
    return getattr(fault, "__name__", "").lower()


def overloaded(answer: Answer, after: str) -> ErrorEvent:
    return ErrorEvent(answer, after, Refuse(529, "overloaded", "too busy for the test"))


@pytest.mark.parametrize("fault", BREAKING, ids=named)
async def test_a_stream_that_breaks_is_an_error(
    connect: Connect, fault: Callable[[Answer, str], Fault]
) -> None:
    line = await connect(fault(WORDS, "beta"), max_retries=0)

    with pytest.raises(StreamError) as caught:
        await line.ask("hi")

    assert caught.value.retryable
    assert caught.value.provider == line.provider.name
    assert [each["error"]["type"] for each in line.of(ABORTED)] == ["StreamError"]


@pytest.mark.parametrize("fault", BREAKING, ids=named)
async def test_an_unstreamed_answer_that_breaks_is_an_error(
    connect: Connect, fault: Callable[[Answer, str], Fault]
) -> None:
    line = await connect(fault(WORDS, "beta"), max_retries=0, use_streaming=False)

    with pytest.raises(StreamError):
        await line.ask("hi")

    assert line.of(ABORTED) == []


@pytest.mark.parametrize("fault", [*BREAKING, overloaded], ids=named)
async def test_a_stream_that_breaks_is_tried_again(
    connect: Connect, fault: Callable[[Answer, str], Fault]
) -> None:
    line = await connect(fault(WORDS, "beta"), WORDS)

    response = await line.ask("hi")

    assert text_of(response) == "alpha beta gamma delta", "nothing of the first attempt is left"
    assert len(line.of("provider:retry")) == 1
    [aborted] = line.of(ABORTED)
    ids = list(dict.fromkeys(each["request_id"] for each in line.of("llm:stream_block_delta")))
    assert ids[0] == aborted["request_id"]
    assert len(ids) == 2


async def test_a_stream_without_its_terminal_event_is_not_a_success(
    connect: Connect, vendor: Vendor
) -> None:
    line = await connect(Cut(WORDS, -vendor.terminal_events), max_retries=0)

    with pytest.raises(StreamError):
        await line.ask("hi")


async def test_a_stream_without_any_event_is_not_an_empty_answer(connect: Connect) -> None:
    line = await connect(Cut(WORDS, 0), max_retries=0)

    with pytest.raises(StreamError):
        await line.ask("hi")

    assert line.of(ABORTED) == [], "nobody has seen a part of it"


@pytest.mark.needs("argument_text")
async def test_a_stream_cut_inside_of_arguments_makes_no_call(connect: Connect) -> None:
    call = ToolUse("call_1", "read_file", '{"path": "/etc/passwd.backup"}')
    line = await connect(Cut(Answer([call], finish="tool_calls"), "/etc/"), max_retries=0)

    with pytest.raises(StreamError):
        await line.ask("read", tools=[READ_FILE])

    assert line.of(ABORTED) == [], "tool input is not announced, so nobody has seen a part of it"


async def test_an_error_inside_a_stream_is_the_vendors_error(connect: Connect) -> None:
    line = await connect(overloaded(WORDS, "beta"), max_retries=0)

    with pytest.raises(ProviderUnavailableError, match="too busy for the test") as caught:
        await line.ask("hi")

    assert caught.value.retryable
    assert len(line.of(ABORTED)) == 1


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "unstreamed"])
async def test_a_server_that_falls_silent_is_left(connect: Connect, streaming: bool) -> None:
    line = await connect(Stall(WORDS, "beta"), use_streaming=streaming, **SILENT)

    with pytest.raises(LLMTimeoutError):
        await line.ask("hi")

    async with asyncio.timeout(LIMIT_SECONDS):
        await line.server.requests[0].disconnected.wait()
    assert len(line.of(ABORTED)) == streaming


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "unstreamed"])
async def test_a_server_that_never_answers_is_left(connect: Connect, streaming: bool) -> None:
    line = await connect(HalfOpen(), use_streaming=streaming, **SILENT)

    with pytest.raises(LLMTimeoutError):
        await line.ask("hi")

    assert line.of(ABORTED) == []


async def test_silence_is_followed_by_another_attempt(connect: Connect) -> None:
    line = await connect(HalfOpen(), WORDS, idle_timeout_seconds=0.5, max_retries=1)

    assert text_of(await line.ask("hi")) == "alpha beta gamma delta"
    assert [each["error_type"] for each in line.of("provider:retry")] == ["LLMTimeoutError"]


async def test_a_slow_answer_is_not_a_silent_one(connect: Connect) -> None:
    line = await connect(
        Slow(Answer.of("a b c d e f g h i j k l"), 0.1), idle_timeout_seconds=1.0, max_retries=0
    )

    assert text_of(await line.ask("hi")) == "a b c d e f g h i j k l"


async def test_a_complete_answer_does_not_wait_for_the_server_to_hang_up(
    connect: Connect, vendor: Vendor
) -> None:
    """It is paid for; thrown away for the silence behind it, it would be paid for twice."""
    whole = len(vendor.stream(WORDS, {"model": vendor.model, "stream_options": USAGE_TOO}))
    line = await connect(Stall(WORDS, whole), idle_timeout_seconds=5, max_retries=0)

    assert text_of(await line.ask("hi")) == "alpha beta gamma delta"


async def test_an_answer_that_takes_too_long_in_all_is_left(connect: Connect) -> None:
    line = await connect(Slow(WORDS, 0.2), timeout_seconds=0.5, max_retries=0)
    await line.provider.client.get()

    with pytest.raises(LLMTimeoutError, match=r"0\.5 s"):
        await line.ask("hi")


async def test_a_request_may_have_less_time_than_others(connect: Connect) -> None:
    line = await connect(HalfOpen(), max_retries=0)
    await line.provider.client.get()

    with pytest.raises(LLMTimeoutError):
        await line.ask("hi", timeout=0.3)


async def test_a_server_that_is_not_there_is_a_network_error(connect: Connect) -> None:
    line = await connect(max_retries=1)
    await line.server.close()

    with pytest.raises(NetworkError) as caught:
        await line.ask("hi")

    assert caught.value.__cause__ is not None
    assert [each["error_type"] for each in line.of("provider:retry")] == ["NetworkError"]
