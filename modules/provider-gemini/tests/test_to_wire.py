"""Messages on their way out: what Gemini signed goes back in its place, the rest fits around it."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.message_models import Message
from amplifier_module_provider_gemini.to_wire import Content, Conversion, assemble

PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
INLINE = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
# base64 of the vendor's `skip_thought_signature_validator`
NOT_SIGNED = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="


def call(call_id: str, **extra: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": "look", "input": {"at": "sky"}, **extra}


def result(call_id: str, content: Any = "blue") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def converted(*messages: dict[str, Any]) -> list[Content]:
    conversion = Conversion()
    return [conversion(Message(**each)) for each in messages]


def turns(*messages: dict[str, Any], pictures_in_results: bool = True) -> list[dict[str, Any]]:
    return assemble(converted(*messages), pictures_in_results=pictures_in_results)[1]


def test_a_text_is_cut_where_it_was_signed() -> None:
    signed = [[4, 7, "c2lnMQ=="], [7, 7, "c2lnMg=="]]
    block = {"type": "text", "text": "one two three", "gemini": {"signed": signed}}

    [content] = converted(said(block))

    assert content.parts == [
        {"text": "one "},
        {"text": "two", "thoughtSignature": "c2lnMQ=="},
        {"text": "", "thoughtSignature": "c2lnMg=="},
        {"text": " three"},
    ]


def test_our_thoughts_go_back_and_those_of_others_stay_behind() -> None:
    ours = {"type": "thinking", "thinking": "hm", "gemini": {"signed": [[0, 2, "c2ln"]]}}
    others: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "so", "signature": "foreign"},
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "reasoning", "content": [], "summary": []},
    ]

    [content] = converted(said(*others, ours))

    assert content.parts == [{"text": "hm", "thought": True, "thoughtSignature": "c2ln"}]


def test_a_signed_call_keeps_its_signature_and_the_calls_beside_it_get_none() -> None:
    [content] = converted(said(call("1", gemini={"thought_signature": "c2ln"}), call("2")))

    assert [part.get("thoughtSignature") for part in content.parts] == ["c2ln", None]


def test_the_first_call_of_another_vendor_says_that_it_is_not_signed() -> None:
    [content] = converted(said(call("1"), call("2")))

    assert [part.get("thoughtSignature") for part in content.parts] == [NOT_SIGNED, None]


def test_a_part_that_no_block_can_hold_goes_back_whole() -> None:
    part = {"executableCode": {"language": "PYTHON", "code": "1 + 1"}, "thoughtSignature": "c2ln"}

    [content] = converted(said({"type": "text", "text": "", "gemini": {"part": part}}))

    assert content.parts == [part]


def test_a_picture_that_the_model_made_goes_back_with_its_signature() -> None:
    [content] = converted(said({**PICTURE, "gemini": {"thought_signature": "c2ln"}}))

    assert content.parts == [{**INLINE, "thoughtSignature": "c2ln"}]


def test_the_results_of_one_step_are_one_content_with_the_names_of_their_calls() -> None:
    look, more = {"role": "user", "content": "look"}, {"role": "user", "content": "and?"}

    sent = turns(look, said(call("1"), call("2")), result("1"), result("2", "white"), more)

    assert [content["role"] for content in sent] == ["user", "model", "user"]
    assert sent[2]["parts"] == [
        {"functionResponse": {"id": "1", "name": "look", "response": {"output": "blue"}}},
        {"functionResponse": {"id": "2", "name": "look", "response": {"output": "white"}}},
        {"text": "and?"},
    ]


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "a cat"}, PICTURE],
        [{"type": "tool_result", "tool_call_id": "1",
          "output": [{"type": "text", "text": "a cat"}, PICTURE]}],
    ],
    ids=["blocks", "output"],
)  # fmt: skip
def test_pictures_are_in_their_result_or_behind_it_as_the_model_can(content: Any) -> None:
    messages = (said(call("1")), result("1", content))
    plain = {"id": "1", "name": "look", "response": {"output": "a cat"}}

    inside = turns(*messages)[1]["parts"]
    behind = turns(*messages, pictures_in_results=False)[1]["parts"]

    assert inside == [{"functionResponse": {**plain, "parts": [INLINE]}}]
    assert behind == [{"functionResponse": plain}, INLINE]


def test_an_output_that_is_data_is_sent_as_json() -> None:
    block = {"type": "tool_result", "tool_call_id": "1", "output": [{"type": "text"}]}

    [_, content] = converted(said(call("1")), {"role": "user", "content": [block]})

    output = content.parts[0]["functionResponse"]["response"]["output"]
    assert output == '[{"type": "text"}]'


def test_a_picture_from_an_unknown_source_is_described_and_reported() -> None:
    block = {"type": "image", "source": {"type": "file", "file_id": "f-1"}}

    [content] = converted({"role": "user", "content": [block]})

    assert "picture" in content.parts[0]["text"]
    assert len(content.lost) == 1


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example/c.webp?size=2", "image/webp"),
        ("https://a.example/picture", "image/jpeg"),
    ],
)
def test_the_type_of_a_picture_is_guessed_from_its_address(url: str, expected: str) -> None:
    block = {"type": "image", "source": {"type": "url", "url": url}}

    [content] = converted({"role": "user", "content": [block]})

    assert content.parts == [{"fileData": {"fileUri": url, "mimeType": expected}}]


def test_system_texts_lead_and_later_ones_stay_in_their_place() -> None:
    rules, late = {"role": "system", "content": "Be brief."}, {"role": "system", "content": "Late."}
    hello = {"role": "user", "content": "hi"}

    system, sent = assemble(converted(rules, rules, hello, late), pictures_in_results=True)

    assert system == [{"text": "Be brief."}] * 2
    assert sent == [
        {"role": "user", "parts": [{"text": "hi"}, {"text": "<system>\nLate.\n</system>"}]}
    ]


def test_a_developer_may_show_a_picture() -> None:
    text = {"type": "text", "text": "Like this."}

    [content] = converted({"role": "developer", "content": [text, PICTURE]})

    assert content.parts == [{"text": "<developer>\nLike this.\n</developer>"}, INLINE]


def test_a_message_without_content_is_left_out() -> None:
    hello = {"role": "user", "content": "hi"}

    assert turns(hello, {"role": "assistant", "content": ""}, hello) == [
        {"role": "user", "parts": [{"text": "hi"}, {"text": "hi"}]}
    ]


def test_assembling_twice_changes_nothing() -> None:
    contents = converted({"role": "user", "content": "a"}, {"role": "user", "content": "b"})

    first = assemble(contents, pictures_in_results=True)

    assert assemble(contents, pictures_in_results=True) == first
