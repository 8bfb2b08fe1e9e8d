"""Streams as real servers send them: OpenAI's, llama.cpp's, and some that break off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core.llm_errors import ContentFilterError, RateLimitError, StreamError
from wire.line import Line, text_of
from wire.server import WireServer
from wire.vendor import Answer
from wire.vendors.responses import Responses

Connect = Callable[..., Awaitable[Line]]

SAID: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello there", "annotations": []}],
}
CALLED: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "look",
    "arguments": "{}",
}
THOUGHT: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": text} for text in ("one", "two")],
    "encrypted_content": "sealed",
}


def completed(*output: dict[str, Any]) -> dict[str, Any]:
    response = {"id": "resp_1", "status": "completed", "output": list(output)}
    return {"type": "response.completed", "response": response}


def words(*deltas: str, **place: Any) -> list[dict[str, Any]]:
    kind = {"type": "response.output_text.delta"}
    return [{**kind, **place, "delta": delta} for delta in deltas]


def announced(line: Line) -> list[tuple[str, int, str]]:
    return [
        (name.removeprefix("llm:stream_"), data["block_index"], data.get("text", ""))
        for name, data in line.events
        if name.startswith("llm:stream_block")
    ]


async def test_a_server_that_numbers_nothing_is_understood(connect: Connect) -> None:
    added = {"type": "response.output_item.added"}
    finished = {"type": "response.output_item.done"}
    line = await connect(
        {**added, "item": {**SAID, "content": []}},
        *words("Hello ", "there", item_id="msg_1"),
        {**added, "item": CALLED},
        {**finished, "item": SAID},
        {**finished, "item": CALLED},
        completed(SAID, CALLED),
    )

    response = await line.ask("hi")

    assert [block.type for block in response.content] == ["text", "tool_call"]
    assert announced(line) == [
        ("block_start", 0, ""),
        ("block_delta", 0, "Hello "),
        ("block_delta", 0, "there"),
        ("block_start", 1, ""),
        ("block_end", 1, ""),
        ("block_end", 0, ""),
    ]


async def test_a_block_that_nobody_announced_begins_with_its_first_words(connect: Connect) -> None:
    line = await connect(*words("Hello there", output_index=0, content_index=0), completed(SAID))

    assert text_of(await line.ask("hi")) == "Hello there"
    assert [name for name, _, _ in announced(line)] == ["block_start", "block_delta", "block_end"]


async def test_items_that_are_left_out_at_the_end_are_not_lost(connect: Connect) -> None:
    done = {"type": "response.output_item.done", "output_index": 0, "item": SAID}
    line = await connect(done, completed())

    assert text_of(await line.ask("hi")) == "Hello there"


async def test_the_parts_of_a_summary_are_announced_as_they_are_kept(connect: Connect) -> None:
    kind = "response.reasoning_summary"
    parts = [
        event
        for number, text in enumerate(("one", "two"))
        for event in (
            {"type": f"{kind}_part.added", "output_index": 0, "summary_index": number},
            {"type": f"{kind}_text.delta", "output_index": 0, "delta": text},
        )
    ]
    line = await connect(*parts, completed(THOUGHT, SAID))

    block = (await line.ask("hi")).content[0]

    assert block.type == "thinking"
    assert "".join(text for _, index, text in announced(line) if index == 0) == block.thinking


async def test_what_is_not_shown_still_has_its_place(connect: Connect) -> None:
    search = {"type": "web_search_call", "id": "ws_1"}
    added = {"type": "response.output_item.added", "output_index": 0, "item": search}
    line = await connect(added, *words("Hello there", output_index=1), completed(search, SAID))

    response = await line.ask("hi")

    assert [block.type for block in response.content] == ["reasoning", "text"]
    assert {index for _, index, _ in announced(line)} == {1}


async def test_a_refusal_is_announced_and_then_an_error(connect: Connect) -> None:
    refusal = {**SAID, "content": [{"type": "refusal", "refusal": "No."}]}
    delta = {"type": "response.refusal.delta", "output_index": 0, "delta": "No."}
    line = await connect(delta, completed(refusal))

    with pytest.raises(ContentFilterError, match=r"No\."):
        await line.ask("hi")

    assert [each["text"] for each in line.of("llm:stream_block_delta")] == ["No."]
    assert len(line.of("llm:stream_aborted")) == 1


async def test_a_response_that_fails_in_mid_stream_is_the_error_it_names(connect: Connect) -> None:
    error = {"code": "rate_limit_exceeded", "message": "Please try again in 5ms."}
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
    line = await connect(*words("Hel", output_index=0), failed, max_retries=0)

    with pytest.raises(RateLimitError) as caught:
        await line.ask("hi")

    assert caught.value.retry_after == 0.005
    assert len(line.of("llm:stream_aborted")) == 1


HALF: list[list[dict[str, Any]]] = [
    words("Hello there", output_index=0),
    [{"type": "response.created", "response": {}}, {"type": "response.queued"}],
    [{"type": "response.completed"}],
    [{"type": "response.completed", "response": {"status": "completed", "output": [{}]}}],
]


@pytest.mark.parametrize(
    "events",
    HALF,
    ids=["no end", "nothing", "an end without a response", "an item without a type"],
)
async def test_half_an_answer_is_no_answer(connect: Connect, events: list[dict[str, Any]]) -> None:
    line = await connect(*events, max_retries=0)

    with pytest.raises(StreamError):
        await line.ask("hi")


class Counting(WireServer):
    """Counts the connections that are made to it."""

    accepted = 0

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        await super()._accept(reader, writer)


async def test_one_connection_serves_call_after_call() -> None:
    async with Counting(Responses(), *[Answer.of("Fine.")] * 3) as server:
        line = Line(server)
        await line.mount(Responses().config(server.base_url))
        for _ in range(3):
            await line.ask("hi")
        await line.close()

    assert server.accepted == 1
