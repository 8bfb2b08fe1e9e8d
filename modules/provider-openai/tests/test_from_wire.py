"""What becomes of a response."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import ChatResponse, Usage
from amplifier_core.llm_errors import (
    ContentFilterError,
    InvalidRequestError,
    LLMError,
    ProviderUnavailableError,
    StreamError,
)
from amplifier_kit.tools import broken_problem
from amplifier_module_provider_openai.from_wire import chat_response, usage_of

HERE = "api.openai.com"


def read(*output: dict[str, Any], limit: int | None = None, **fields: Any) -> ChatResponse:
    response = {"id": "resp_1", "model": "m-1", "status": "completed", "output": list(output)}
    return chat_response({**response, **fields}, model="m", origin=HERE, limit=limit)


def said(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": list(parts), **fields}


def text(words: str) -> dict[str, Any]:
    return {"type": "output_text", "text": words, "annotations": []}


def call(arguments: str, **fields: Any) -> dict[str, Any]:
    facts = {"id": "fc_1", "call_id": "call_1", "name": "look", "arguments": arguments}
    return {"type": "function_call", **facts, **fields}


def refusal(words: str = "I cannot help with that.") -> dict[str, Any]:
    return {"type": "refusal", "refusal": words}


def test_a_reasoning_item_is_kept_whole_and_shown_as_its_summary() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": t} for t in ("one", "two")],
        "encrypted_content": "gAAA",
        "a_field_of_tomorrow": [1],
    }

    block = read(item, said(text("so"))).content[0]

    assert block.type == "thinking"
    assert block.thinking == "one\n\ntwo"
    assert block.content == [item]
    assert (block.model_extra or {})["origin"] == HERE


def test_reasoning_in_clear_is_shown_when_there_is_no_summary() -> None:
    content = [{"type": "reasoning_text", "text": "hm"}]
    block = read({"type": "reasoning", "id": "rs_1", "summary": [], "content": content}).content[0]

    assert block.type == "thinking"
    assert block.thinking == "hm"


def test_an_item_of_an_unknown_type_is_kept() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}

    response = read(search, said(text("found")))

    assert [block.type for block in response.content] == ["reasoning", "text"]
    assert response.content[0].model_dump()["content"] == [search]


def test_plain_text_carries_nothing_of_the_vendor() -> None:
    [block] = read(said(text("so"))).content

    assert block.model_dump(exclude_none=True) == {"type": "text", "text": "so"}


def test_a_phase_and_annotations_are_kept() -> None:
    cited = {**text("so"), "annotations": [{"type": "url_citation", "url": "https://a.example"}]}

    [block] = read(said(cited, phase="commentary")).content

    extra = block.model_extra or {}
    assert (extra["phase"], extra["origin"]) == ("commentary", HERE)
    assert extra["annotations"][0]["url"] == "https://a.example"


def test_what_the_vendor_called_the_end_stays_visible() -> None:
    metadata = read(said(text("so"))).metadata

    assert metadata == {"response_id": "resp_1", "model": "m-1", "finish_reason": "completed"}


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("steered", "length")],
)
def test_an_incomplete_answer_says_why(reason: str, expected: str) -> None:
    response = read(said(text("so")), status="incomplete", incomplete_details={"reason": reason})

    assert response.finish_reason == expected
    assert (response.metadata or {})["finish_reason"] == reason


def test_an_answer_at_its_limit_is_not_taken_for_a_whole_one() -> None:
    usage = {"input_tokens": 9, "output_tokens": 8}

    assert read(said(text("so")), usage=usage, limit=8).finish_reason == "length"
    assert read(said(text("so")), usage=usage, limit=9).finish_reason == "stop"
    [cut] = read(call('{"path": "/et'), usage=usage, limit=8).tool_calls or []
    assert "cut off" in (broken_problem(cut.arguments) or "")


def test_a_refusal_alone_is_an_error() -> None:
    with pytest.raises(ContentFilterError, match="I cannot help"):
        read(said(refusal()))


def test_a_refusal_beside_text_is_text() -> None:
    response = read(said(text("Well."), refusal("No more.")))

    assert [block.model_dump()["text"] for block in response.content] == ["Well.", "No more."]


@pytest.mark.parametrize("arguments", ["", '{"path": "/et'])
def test_an_incomplete_call_is_never_made(arguments: str) -> None:
    [made] = read(call(arguments, status="incomplete"), status="incomplete").tool_calls or []

    assert made.name == "look"
    assert broken_problem(made.arguments) is not None


@pytest.mark.parametrize("status", ["in_progress", "queued", "cancelled", None])
def test_an_answer_without_an_end_is_none(status: str | None) -> None:
    with pytest.raises(StreamError, match="before its end"):
        read(said(text("so")), status=status)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": "server_error", "message": "oh"}, ProviderUnavailableError),
        ({"code": "invalid_prompt", "message": "flagged"}, ContentFilterError),
        ({"code": "invalid_image", "message": "what?"}, InvalidRequestError),
        (None, ProviderUnavailableError),
    ],
)
def test_a_failed_response_is_the_error_it_names(
    error: dict[str, Any] | None, expected: type[LLMError]
) -> None:
    with pytest.raises(expected):
        read(status="failed", error=error)


def test_what_a_server_does_not_count_is_unknown() -> None:
    counted = usage_of({"input_tokens": 7, "output_tokens": 2})

    assert counted == Usage(input_tokens=7, output_tokens=2, total_tokens=9)
    assert usage_of(None) is None
