"""Callers who leave, and callers who come at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from wire.conftest import Connect
from wire.line import LIMIT_SECONDS, request, text_of
from wire.vendor import Answer, Cut, Hold, Refuse, Stall, Vendor

WORDS = Answer.of("alpha beta gamma delta")
DELTA = "llm:stream_block_delta"


async def test_a_caller_who_leaves_in_mid_stream_hangs_up(connect: Connect) -> None:
    line = await connect(Stall(WORDS, "beta"))
    call = asyncio.create_task(line.ask("hi"))
    await line.wait_for(DELTA)

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    async with asyncio.timeout(120):
        await line.server.requests[0].disconnected.wait()
    assert [each["error"]["type"] for each in line.of("llm:stream_aborted")] == ["CancelledError"]


async def test_a_caller_who_leaves_an_unstreamed_answer_hangs_up(connect: Connect) -> None:
    arrived = asyncio.Event()

    def stall(_: dict[str, Any]) -> Stall:
        arrived.set()
        return Stall(WORDS, 0)

    line = await connect(stall, use_streaming=False)
    call = asyncio.create_task(line.ask("hi"))
    async with asyncio.timeout(LIMIT_SECONDS):
        await arrived.wait()

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    async with asyncio.timeout(120):
        await line.server.requests[0].disconnected.wait()


async def test_a_caller_who_leaves_is_not_called_back(connect: Connect) -> None:
    line = await connect(Refuse(503, "overloaded", headers={"retry-after": "60"}))
    call = asyncio.create_task(line.ask("hi"))
    await line.wait_for("provider:retry")

    call.cancel()
    async with asyncio.timeout(120):
        with pytest.raises(asyncio.CancelledError):
            await call

    assert len(line.server.requests) == 1


async def test_the_next_call_works_after_one_was_left(connect: Connect) -> None:
    line = await connect(Stall(WORDS, "beta"), Answer.of("still here"))
    call = asyncio.create_task(line.ask("hi"))
    await line.wait_for(DELTA)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    assert text_of(await line.ask("and now?")) == "still here"


async def test_calls_at_the_same_time_do_not_mix(connect: Connect, vendor: Vendor) -> None:
    """The first answer is held back in the middle until the second one is complete."""
    gate = asyncio.Event()

    def answer(body: dict[str, Any]) -> Hold | Answer:
        who = vendor.sent_texts(body)[-1].text
        said = Answer.of(f"{who} says {who} to {who}")
        return Hold(said, "says", gate) if who == "first" else said

    line = await connect(answer, answer)
    first = asyncio.create_task(line.ask("first"))
    await line.wait_for(DELTA)

    second = await line.ask("second")
    gate.set()

    assert text_of(second) == "second says second to second"
    assert text_of(await first) == "first says first to first"
    by_call: dict[str, str] = {}
    for delta in line.of(DELTA):
        by_call[delta["request_id"]] = by_call.get(delta["request_id"], "") + delta["text"]
    assert sorted(by_call.values()) == ["first says first to first", "second says second to second"]


async def test_many_calls_at_once_all_get_their_own_answer(
    connect: Connect, vendor: Vendor
) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        return Answer.of(f"you are {vendor.sent_texts(body)[-1].text}")

    line = await connect(*[answer] * 20)

    responses = await asyncio.gather(*(line.ask(f"number {n}") for n in range(20)))

    assert [text_of(each) for each in responses] == [f"you are number {n}" for n in range(20)]


async def test_what_one_session_hears_another_does_not(connect: Connect) -> None:
    one = await connect(Answer.of("to the one"))
    other = await connect(Cut(WORDS, "beta"), WORDS)

    await asyncio.gather(one.ask("hi"), other.ask("hi"))

    assert one.of("provider:retry") == one.of("llm:stream_aborted") == []
    assert "".join(each["text"] for each in one.of(DELTA)) == "to the one"


async def test_connections_are_used_again(connect: Connect) -> None:
    line = await connect(*[WORDS] * 5)

    for _ in range(5):
        await line.provider.complete(request("hi"))

    assert line.server.open_connections == 1
