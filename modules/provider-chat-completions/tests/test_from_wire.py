"""Answers as servers send them, and the responses they become."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from amplifier_core.hooks import HookRegistry
from amplifier_core.llm_errors import ContentFilterError, StreamError
from amplifier_core.message_models import ChatResponse
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_kit.calls.messages import reading_answer
from amplifier_kit.tools import broken_problem
from amplifier_module_provider_chat_completions.from_wire import Collector


def chunk(finish: str | None = None, usage: Any = None, **delta: Any) -> Any:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return ChatCompletionChunk.construct(choices=choices, usage=usage)


def fragment(**fields: Any) -> dict[str, Any]:
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return {**fields, "function": function}


async def streamed(*chunks: Any) -> ChatResponse:
    collector = Collector(BlockStream(HookRegistry()))
    with reading_answer("here", "m"):
        for each in chunks:
            await collector.take(each)
        return collector.answer.response("here", "m")


async def whole(finish: str | None = "stop", usage: Any = None, **message: Any) -> ChatResponse:
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    collector = Collector(None)
    with reading_answer("here", "m"):
        await collector.take(ChatCompletion.construct(choices=choices, usage=usage))
        return collector.answer.response("here", "m")


@pytest.mark.parametrize("spelled", ["reasoning_content", "reasoning"])
async def test_reasoning_in_either_field_is_thinking(spelled: str) -> None:
    parts = [chunk(**{spelled: "hm, "}), chunk(**{spelled: "so"}), chunk("stop", content="yes")]

    response = await streamed(*parts)

    assert [block.type for block in response.content] == ["thinking", "text"]
    assert response == await whole(**{spelled: "hm, so"}, content="yes")


async def test_calls_without_ids_get_ids_of_their_own() -> None:
    calls = [
        fragment(index=0, name="a", arguments="{}"),
        fragment(index=1, name="b", arguments='{"x": 1}'),
    ]

    response = await streamed(chunk("tool_calls", tool_calls=calls))

    assert response.tool_calls is not None
    assert [(call.name, call.arguments) for call in response.tool_calls] == [
        ("a", {}),
        ("b", {"x": 1}),
    ]
    ids = {call.id for call in response.tool_calls}
    assert len(ids) == 2
    assert "" not in ids


async def test_calls_with_the_same_id_are_told_apart() -> None:
    calls = [fragment(id="x", name="a"), fragment(id="x", name="b")]

    response = await whole("tool_calls", tool_calls=calls)

    assert response.tool_calls is not None
    first, second = response.tool_calls
    assert first.id == "x"
    assert second.id not in ("", "x")


async def test_calls_that_share_an_index_are_told_apart_by_their_ids() -> None:
    parts = [
        chunk(tool_calls=[fragment(index=0, id="one", name="a", arguments='{"x":')]),
        chunk(tool_calls=[fragment(index=0, id="one", arguments=" 1}")]),
        chunk("tool_calls", tool_calls=[fragment(index=0, id="two", name="b")]),
    ]

    response = await streamed(*parts)

    assert response.tool_calls is not None
    found = [(call.id, call.name, call.arguments) for call in response.tool_calls]
    assert found == [("one", "a", {"x": 1}), ("two", "b", {})]


async def test_calls_whose_fragments_are_mixed_are_put_together_by_index() -> None:
    parts = [
        chunk(tool_calls=[fragment(index=0, id="one", name="a", arguments='{"x":')]),
        chunk(tool_calls=[fragment(index=1, id="two", name="b", arguments='{"y":')]),
        chunk(tool_calls=[fragment(index=0, arguments="1}"), fragment(index=1, arguments="2}")]),
        chunk("tool_calls"),
    ]

    response = await streamed(*parts)

    assert [call.arguments for call in response.tool_calls or ()] == [{"x": 1}, {"y": 2}]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("function_call", "tool_calls"),
        ("eos", "stop"),
    ],
)
async def test_the_servers_word_for_the_end_is_kept_beside_ours(word: str, reason: str) -> None:
    response = await whole(word, content="so")

    assert response.finish_reason == reason
    assert response.metadata == {"finish_reason": word}


async def test_a_call_that_ends_with_stop_is_a_call() -> None:
    response = await whole("stop", tool_calls=[fragment(id="x", name="a")])

    assert response.finish_reason == "tool_calls"


@pytest.mark.parametrize("word", [None, "error", "abort"])
async def test_an_answer_without_a_good_end_is_an_error(word: str | None) -> None:
    with pytest.raises(StreamError, match="before its end"):
        await whole(word, content="half of")


@pytest.mark.parametrize(("finish", "refusal"), [("stop", "I will not"), ("content_filter", None)])
async def test_an_answer_of_which_nothing_is_left_was_filtered(
    finish: str, refusal: str | None
) -> None:
    with pytest.raises(ContentFilterError):
        await whole(finish, refusal=refusal)


async def test_a_refusal_behind_a_text_is_kept() -> None:
    response = await streamed(
        chunk(content="Well."), chunk(refusal="No"), chunk("stop", refusal=".")
    )

    assert [block.model_dump()["text"] for block in response.content] == ["Well.", "No."]


async def test_arguments_that_the_limit_cut_off_are_none() -> None:
    response = await whole("length", tool_calls=[fragment(id="x", name="a", arguments='{"x": ')])

    [call] = response.tool_calls or []
    assert "cut off" in (broken_problem(call.arguments) or "")


async def test_usage_is_counted_as_the_server_counts_and_absent_where_it_does_not() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }

    counted = (await streamed(chunk("stop", content="x"), chunk(usage=usage))).usage

    assert counted is not None
    assert counted.model_dump(exclude_none=True) == {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "cache_read_tokens": 8,
        "reasoning_tokens": 3,
    }
    assert (await whole(content="x")).usage is None


async def test_usage_that_is_no_number_is_an_error_of_the_answer() -> None:
    with pytest.raises(StreamError, match="unknown form"):
        await whole(content="x", usage={"prompt_tokens": "many", "completion_tokens": 1})


async def test_text_that_is_no_text_is_an_error_of_the_answer() -> None:
    with pytest.raises(StreamError, match="unknown form"):
        await streamed(chunk(content=[{"type": "text", "text": "x"}]), chunk("stop"))
