"""Streams that are out of the ordinary."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core.hooks import HookRegistry
from amplifier_core.llm_errors import (
    InvalidRequestError,
    LLMError,
    ProviderUnavailableError,
    RateLimitError,
    StreamError,
)
from amplifier_core.message_models import ChatRequest, Usage
from amplifier_core.testing import EventRecorder
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_kit.calls.call_costs import PartialAnswer
from amplifier_kit.calls.model_calls import Call
from amplifier_module_provider_anthropic.from_wire import read_stream

START = {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3}}}
TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
END = {"type": "content_block_stop", "index": 0}
LAST = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn"},
    "usage": {"output_tokens": 2},
}
STOP = {"type": "message_stop"}


def delta(kind: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def call() -> Call:
    return Call("a-model", ChatRequest(messages=[]), {}, streaming=True)


async def read(*events: Any, hooks: HookRegistry | None = None) -> dict[str, Any]:
    async def frames() -> AsyncIterator[Any]:
        for event in events:
            if isinstance(event, Exception):
                raise event
            yield SimpleNamespace(data=json.dumps(event) if event else "")

    return await read_stream(frames(), BlockStream(hooks or HookRegistry()), call())


async def test_events_that_nobody_knows_are_passed_over() -> None:
    message = await read(
        START, {"type": "ping"}, None, {"type": "from_the_future", "x": 1}, TEXT,
        delta("text_delta", text="so"), delta("novel_delta", tune="la"), END, LAST, STOP,
    )  # fmt: skip

    assert message["content"] == [{"type": "text", "text": "so"}]
    assert message["usage"] == {"input_tokens": 3, "output_tokens": 2}


async def test_counts_that_are_not_reported_again_stay_known() -> None:
    begun = {"id": "msg_1", "usage": {"input_tokens": 3, "cache_read_input_tokens": 7}}
    counts = {"output_tokens": 2, "cache_read_input_tokens": None}

    message = await read({**START, "message": begun}, {**LAST, "usage": counts}, STOP)

    assert message["usage"] == {
        "input_tokens": 3,
        "cache_read_input_tokens": 7,
        "output_tokens": 2,
    }


async def test_citations_are_kept_with_their_text() -> None:
    cites = [{"type": "page_location", "document_index": n} for n in range(2)]

    message = await read(
        START, TEXT, *(delta("citations_delta", citation=each) for each in cites), END, LAST, STOP
    )

    assert message["content"] == [{"type": "text", "text": "", "citations": cites}]


async def test_text_that_comes_with_the_start_of_a_block_is_announced() -> None:
    recorder, hooks = EventRecorder(), HookRegistry()
    hooks.register("llm:stream_block_delta", recorder.record)
    begun = {**TEXT, "content_block": {"type": "text", "text": "So "}}

    message = await read(START, begun, delta("text_delta", text="be it."), LAST, STOP, hooks=hooks)

    assert message["content"][0]["text"] == "So be it."
    assert [data["text"] for _, data in recorder.events] == ["So ", "be it."]


async def test_the_input_of_the_vendors_own_tools_is_not_announced() -> None:
    recorder, hooks = EventRecorder(), HookRegistry()
    for event in ("llm:stream_block_start", "llm:stream_block_delta", "llm:stream_block_end"):
        hooks.register(event, recorder.record)
    block: dict[str, Any] = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {},
    }

    message = await read(
        START, {**TEXT, "content_block": block}, delta("input_json_delta", partial_json='{"q":'),
        delta("input_json_delta", partial_json="1}"), END, LAST, STOP, hooks=hooks,
    )  # fmt: skip

    assert message["content"] == [{**block, "input": '{"q":1}'}]
    assert recorder.events == []


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", ProviderUnavailableError),
        ("api_error", ProviderUnavailableError),
        ("rate_limit_error", RateLimitError),
        ("invalid_request_error", InvalidRequestError),
        ("error_of_tomorrow", ProviderUnavailableError),
    ],
)
async def test_an_error_in_mid_stream_is_what_its_type_says(
    kind: str, expected: type[LLMError]
) -> None:
    with pytest.raises(expected, match="enough") as caught:
        await read(START, TEXT, {"type": "error", "error": {"type": kind, "message": "enough"}})

    assert type(caught.value) is expected


@pytest.mark.parametrize(
    "broken",
    [
        [1],
        {"kind": "message_stop"},
        {"type": "content_block_delta"},
        delta("text_delta", index=7, text="lost"),
        TEXT | {"content_block": None},
    ],
)
async def test_an_event_that_cannot_be_read_breaks_the_stream(broken: Any) -> None:
    with pytest.raises(StreamError, match="cannot be read"):
        await read(START, broken, STOP)


@pytest.mark.parametrize("end", [[], [LAST]], ids=["in mid-block", "before the last event"])
async def test_an_answer_without_its_last_event_is_no_answer(end: list[Any]) -> None:
    with pytest.raises(StreamError, match="before its end"):
        await read(START, TEXT, delta("text_delta", text="so"), *end)


async def test_a_connection_that_breaks_after_the_end_takes_nothing_away() -> None:
    message = await read(START, TEXT, END, LAST, STOP, ConnectionResetError("gone"))

    assert message["stop_reason"] == "end_turn"


THINKING = {"type": "thinking", "thinking": "", "signature": ""}
TOOL: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "write", "input": {}}
REPORTED = Usage(input_tokens=3, output_tokens=0, total_tokens=3)


def start(block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": 0, "content_block": block}


@pytest.mark.parametrize(
    ("events", "partial"),
    [
        ([], None),
        ([{**START, "message": {"id": "msg_1"}}], None),
        ([{**START, "message": {"usage": "rubbish"}}], None),
        ([{**START, "message": {"usage": {"input_tokens": "many"}}}], None),
        ([START], PartialAnswer(REPORTED, 0, "estimated")),
        ([START, TEXT, delta("text_delta", text="grün")], PartialAnswer(REPORTED, 5, "estimated")),
        ([START, start(THINKING)], PartialAnswer(REPORTED, 0, "unknown")),
        ([START, start(THINKING), END], PartialAnswer(REPORTED, 0, "unknown")),
        ([START, start(TOOL)], PartialAnswer(REPORTED, 0, "unknown")),
        (
            [START, start(TOOL), delta("input_json_delta", partial_json="{}"), END],
            PartialAnswer(REPORTED, 2, "estimated"),
        ),
        ([START, start({"type": "server_tool_use", "id": "s", "name": "web_search"})], None),
        (
            [START, TEXT, delta("text_delta", text="so"), END, LAST],
            PartialAnswer(Usage(input_tokens=3, output_tokens=2, total_tokens=5), 2, "reported"),
        ),
    ],
)
async def test_what_is_known_of_a_cancelled_answer(
    events: list[dict[str, Any]], partial: PartialAnswer | None
) -> None:
    """Thinking is billed but summarised, and the input of a call arrives in bursts."""
    made = call()

    async def cut_off() -> AsyncIterator[Any]:
        for event in events:
            yield SimpleNamespace(data=json.dumps(event))
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await read_stream(cut_off(), BlockStream(HookRegistry()), made)

    assert made.partial == partial
