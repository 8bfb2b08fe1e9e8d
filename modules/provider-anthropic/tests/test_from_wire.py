"""The vendor's messages as responses."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.llm_errors import ContentFilterError, StreamError
from amplifier_core.message_models import ChatResponse, Message
from amplifier_kit.tools import broken_problem
from amplifier_module_provider_anthropic.from_wire import to_response
from amplifier_module_provider_anthropic.to_wire import wired

MODEL = "claude-sonnet-5-5"


def response(
    *blocks: dict[str, Any], stop_reason: str | None = "end_turn", **fields: Any
) -> ChatResponse:
    message = {"id": "msg_1", "model": MODEL, "content": list(blocks), "stop_reason": stop_reason}
    return to_response({**message, **fields}, MODEL)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "look", "input": given}


@pytest.mark.parametrize(
    ("stop_reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("something_new", "stop"),
    ],
)
def test_the_reason_to_stop_has_one_name_and_keeps_the_vendors_own(
    stop_reason: str, finish: str
) -> None:
    answer = response(text("so"), stop_reason=stop_reason)

    assert answer.finish_reason == finish
    assert answer.metadata == {"finish_reason": stop_reason, "id": "msg_1", "model": MODEL}


def test_every_block_comes_back_as_it_was_sent() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": " hm\n", "signature": "s+/="},
        {"type": "redacted_thinking", "data": "d+/="},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "u"}]},
        {**text("so"), "citations": [{"type": "web_search_result_location", "url": "u"}]},
        {**call({"a": 1}), "caller": {"type": "direct"}},
    ]

    answer = response(*blocks, stop_reason="tool_use")
    stored = {"role": "assistant", "content": [block.model_dump() for block in answer.content]}

    assert wired(Message.model_validate(stored)).content == blocks


def test_carried_blocks_are_not_shown_to_anybody() -> None:
    carried = response({"type": "novelty", "secret": 1}, text("so")).content[0]

    assert carried.visibility == "internal"
    assert carried.model_dump()["text"] == ""


def test_usage_is_gross_and_what_was_not_reported_is_unknown() -> None:
    counts = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100}
    written = {**counts, "cache_creation_input_tokens": 1_000}

    partial = response(text("so"), usage=counts).usage
    whole = response(text("so"), usage=written).usage

    assert partial is not None
    assert whole is not None
    assert (partial.input_tokens, partial.cache_write_tokens) == (110, None)
    assert (whole.input_tokens, whole.total_tokens, whole.cache_write_tokens) == (
        1_110,
        1_115,
        1_000,
    )
    assert response(text("so")).usage is None


def test_a_refusal_without_a_word_is_an_error_that_says_why() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": None}

    with pytest.raises(ContentFilterError, match="cyber"):
        response(stop_reason="refusal", stop_details=details)


def test_a_call_that_a_refusal_cut_short_is_not_made() -> None:
    answer = response(text("I"), call('{"path": "/'), stop_reason="refusal")

    assert (answer.tool_calls, answer.finish_reason) == (None, "content_filter")


@pytest.mark.parametrize("given", ['{"path": "/et', "", {}])
def test_a_call_at_the_limit_is_never_made_with_half_its_arguments(given: Any) -> None:
    answer = response(text("so"), call(given), stop_reason="max_tokens")

    [made] = answer.tool_calls or []
    assert "path" not in made.arguments
    assert "cut off" in (broken_problem(made.arguments) or "")


def test_a_call_before_the_limit_is_whole() -> None:
    answer = response(call("{}"), text("and th"), stop_reason="max_tokens")

    assert [each.arguments for each in answer.tool_calls or ()] == [{}]


@pytest.mark.parametrize(
    "message", [{}, {"content": None}, {"content": "so"}, {"content": [{"type": "text"}]}]
)
def test_what_is_no_message_is_an_error(message: dict[str, Any]) -> None:
    with pytest.raises(StreamError):
        to_response(message, MODEL)
