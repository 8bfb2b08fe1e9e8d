"""Answers on their way in: every part becomes a block, and half an answer is none."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core.llm_errors import (
    ContentFilterError,
    LLMError,
    StreamError,
)
from amplifier_core.message_models import Message, TextBlock, ThinkingBlock, ToolCallBlock
from amplifier_kit.tools import broken_problem
from amplifier_module_provider_gemini.from_wire import Draft
from amplifier_module_provider_gemini.to_wire import Conversion

Read = Callable[..., Draft]

# Bytes that base64 writes with the two characters in which its alphabets differ.
SIGNATURE = "+/+/AA=="
NOTHING: dict[str, Any] = {}


def chunk(*parts: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [{**candidate, "finishReason": finish}], **fields}


def sent_back(draft: Draft) -> list[dict[str, Any]]:
    blocks = [block.model_dump() for block in draft.response().content]
    return Conversion()(Message(role="assistant", content=blocks)).parts  # pyright: ignore[reportArgumentType] - as stored


def test_fragments_of_a_text_become_one_block(read: Read) -> None:
    response = read(chunk({"text": "Hel"}), chunk({"text": "lo"}, finish="STOP")).response()

    assert response.content == [TextBlock(text="Hello")]
    assert response.finish_reason == "stop"


def test_a_signature_in_mid_text_comes_back_on_the_piece_it_came_with(read: Read) -> None:
    signed = {"text": "lo", "thoughtSignature": SIGNATURE}
    draft = read(chunk({"text": "Hel"}), chunk(signed, {"text": "!"}, finish="STOP"))

    [block] = draft.response().content

    assert isinstance(block, TextBlock)
    assert block.text == "Hello!"
    assert sent_back(draft) == [{"text": "Hel"}, signed, {"text": "!"}]


def test_a_signature_without_text_comes_back_without_text(read: Read) -> None:
    last = {"text": "", "thoughtSignature": SIGNATURE}

    assert sent_back(read(chunk({"text": "Hi"}), chunk(last, finish="STOP"))) == [
        {"text": "Hi"},
        last,
    ]


def test_thoughts_and_text_stay_apart(read: Read) -> None:
    parts = [{"text": "hm", "thought": True}, {"text": "so"}, {"text": "hm", "thought": True}]

    response = read(chunk(*parts, finish="STOP")).response()

    assert [block.type for block in response.content] == ["thinking", "text", "thinking"]
    assert isinstance(response.content[0], ThinkingBlock)


def test_a_call_without_an_id_gets_one_of_its_own(read: Read) -> None:
    part = {"functionCall": {"name": "look"}}

    response = read(chunk(part, part, finish="STOP")).response()

    first, second = [block for block in response.content if isinstance(block, ToolCallBlock)]
    assert (first.name, first.input) == ("look", {})
    assert first.id != second.id
    assert response.finish_reason == "tool_calls"
    assert [call.id for call in response.tool_calls or ()] == [first.id, second.id]


@pytest.mark.parametrize(
    "part",
    [
        {"functionCall": {"id": "1", "name": "look", "args": {"at": "sky"}}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"executableCode": {"language": "PYTHON", "code": "1 + 1"}},
        {"inlineData": {"mimeType": "audio/wav", "data": "aGk="}},
    ],
    ids=["call", "picture", "code", "sound"],
)
def test_every_part_comes_back_as_it_came(read: Read, part: dict[str, Any]) -> None:
    signed = {**part, "thoughtSignature": SIGNATURE}

    [back] = sent_back(read(chunk(signed, finish="STOP")))

    signature = base64.b64decode(back["thoughtSignature"], b"-_" if "_" in str(back) else None)
    assert signature == base64.b64decode(SIGNATURE)
    assert {**back, "thoughtSignature": SIGNATURE} == signed


def test_usage_counts_thoughts_as_output_and_nothing_cached_as_zero(read: Read) -> None:
    early = {"promptTokenCount": 90, "totalTokenCount": 90}
    counts = {
        "promptTokenCount": 90,
        "toolUsePromptTokenCount": 10,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 20,
        "totalTokenCount": 125,
    }

    usage = read(
        chunk(usageMetadata=early), chunk({"text": "ok"}, finish="STOP", usageMetadata=counts)
    ).response().usage  # fmt: skip

    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (100, 25, 125)
    assert (usage.reasoning_tokens, usage.cache_read_tokens) == (20, 0)


def test_an_answer_without_usage_has_none(read: Read) -> None:
    assert read(chunk({"text": "ok"}, finish="STOP")).response().usage is None


@pytest.mark.parametrize(
    ("finish", "expected"),
    [("MAX_TOKENS", "length"), ("CONTINUATION", "length"), ("SAFETY", "content_filter"),
     ("OTHER", "other")],
)  # fmt: skip
def test_an_answer_that_did_not_end_by_itself_says_why(
    read: Read, finish: str, expected: str
) -> None:
    response = read(chunk({"text": "It was"}, finish=finish)).response()

    assert response.finish_reason == expected
    assert response.metadata is not None
    assert response.metadata["finish_reason"] == finish


@pytest.mark.parametrize(
    ("chunks", "kind"),
    [
        ([chunk({"text": "half"})], StreamError),
        ([NOTHING], StreamError),
        ([chunk(finish="OTHER")], StreamError),
        ([chunk(finish="RECITATION")], ContentFilterError),
        ([chunk({"text": "hm", "thought": True}, finish="SAFETY")], ContentFilterError),
        ([{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}], ContentFilterError),
    ],
    ids=["cut", "empty", "other", "recitation", "safety", "prompt"],
)
def test_what_is_no_answer_is_an_error(
    read: Read, chunks: list[dict[str, Any]], kind: type[LLMError]
) -> None:
    with pytest.raises(kind) as caught:
        read(*chunks).response()

    assert type(caught.value) is kind
    assert caught.value.retryable is (kind is not ContentFilterError)
    assert (caught.value.provider, caught.value.model) == ("gemini", "gemini-3.8-flash")


def test_a_malformed_call_is_shown_as_the_model_wrote_it(read: Read) -> None:
    malformed = chunk(finish="MALFORMED_FUNCTION_CALL")
    malformed["candidates"][0]["finishMessage"] = "look(at=sky"

    response = read(malformed).response()

    [call] = response.tool_calls or []
    assert call.name == "look"
    assert "look(at=sky" in str(call.arguments)
    assert response.finish_reason == "tool_calls"


@pytest.mark.parametrize("finish", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
def test_a_call_that_the_server_could_not_read_is_one_that_cannot_be_made(
    read: Read, finish: str
) -> None:
    response = read(chunk({"text": "so"}, finish=finish)).response()

    [call] = response.tool_calls or []
    assert finish in (broken_problem(call.arguments) or "")


EARLY = {"promptTokenCount": 50}
COUNTED = {"promptTokenCount": 50, "candidatesTokenCount": 2, "thoughtsTokenCount": 7}


@pytest.mark.parametrize(
    ("chunks", "offers_tools", "output"),
    [
        ([], False, None),
        ([chunk({"text": "so"})], False, None),
        ([chunk({"text": "so"}, usageMetadata=COUNTED)], False, "estimated"),
        ([chunk({"text": "so"}, usageMetadata=COUNTED)], True, "unknown"),
        ([chunk({"text": "so"}, usageMetadata=EARLY)], False, "unknown"),
        ([chunk({"text": "hm", "thought": True}, usageMetadata=COUNTED)], False, "unknown"),
        ([chunk(usageMetadata=COUNTED)], False, "unknown"),
        ([chunk({"text": "so"}, finish="STOP", usageMetadata=COUNTED)], True, "reported"),
    ],
)
def test_what_is_known_of_a_cancelled_answer(
    read: Read, chunks: list[dict[str, Any]], offers_tools: bool, output: str | None
) -> None:
    """Thoughts may be counted at the end only, and a call arrives when all of it is written."""
    partial = read(*chunks).partial(offers_tools=offers_tools)

    assert (partial and partial.output) == output
    if partial is not None:
        assert partial.reported.input_tokens == 50
        assert partial.received >= len("so") * len(read(*chunks).blocks)
