"""Messages and tools on their way to the vendor."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.message_models import Message, ToolSpec
from amplifier_kit.calls.messages import split_system
from amplifier_module_provider_anthropic.to_wire import (
    conversation,
    system_prompt,
    wired,
    wired_tool,
)

PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}


def wire(role: str, content: Any, **fields: Any) -> list[dict[str, Any]]:
    return wired(Message.model_validate({"role": role, "content": content, **fields})).content


def said(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    return wire("assistant", list(blocks))


def thought(signature: str | None, **extra: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": " hm\n", "signature": signature, **extra}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_interleaved_thoughts_and_calls_keep_their_order_and_their_bytes() -> None:
    redacted: dict[str, Any] = {"type": "redacted_thinking", "data": "b64+/=", "anthropic": {}}
    call = {"type": "tool_call", "id": "toolu_1", "name": "look", "input": {"a": 1}}
    again: dict[str, Any] = {"type": "tool_call", "id": "toolu_2", "name": "look", "input": {}}

    assert said(
        thought("s1", anthropic={}), call, redacted, thought("s2", anthropic={}), again
    ) == [
        {"type": "thinking", "thinking": " hm\n", "signature": "s1"},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}},
        {"type": "redacted_thinking", "data": "b64+/="},
        {"type": "thinking", "thinking": " hm\n", "signature": "s2"},
        {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}},
    ]


def test_thoughts_of_other_vendors_are_left_out() -> None:
    foreign = {"type": "redacted_thinking", "data": "x"}
    reasoning = {"type": "reasoning", "content": ["sealed"], "summary": []}

    assert said(thought("theirs"), foreign, reasoning, text("so")) == [text("so")]


def test_a_thought_without_a_signature_goes_back_only_to_a_server_that_takes_it() -> None:
    message = Message.model_validate(
        {"role": "assistant", "content": [thought(None, anthropic={}), text("so")]}
    )

    assert wired(message).content == [text("so")]
    assert wired(message, keep_unsigned=True).content == [
        {"type": "thinking", "thinking": " hm\n", "signature": ""},
        text("so"),
    ]


def test_a_message_never_ends_in_thinking() -> None:
    assert said(text("so"), thought("s", anthropic={})) == [text("so")]
    assert said(thought("s", anthropic={})) == []


def test_what_the_kernel_has_no_block_for_goes_back_as_it_came() -> None:
    carried = {**text(""), "visibility": "internal", "anthropic": SEARCH}
    cited = {**text("so"), "anthropic": {"citations": [{"cited_text": "so"}]}}

    assert said(carried, cited) == [SEARCH, {**text("so"), "citations": [{"cited_text": "so"}]}]


def test_the_ids_of_other_vendors_are_spelled_in_letters_the_vendor_takes() -> None:
    call: dict[str, Any] = {"type": "tool_call", "id": "call|1:é", "name": "look", "input": {}}

    assert said(call)[0]["id"] == "call_1__"
    assert wire("tool", "seen", tool_call_id="call|1:é")[0]["tool_use_id"] == "call_1__"


def test_a_failed_result_says_so() -> None:
    failed = {"type": "tool_result", "tool_call_id": "t", "output": "no", "is_error": True}

    assert wire("tool", [failed], tool_call_id="t") == [
        {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}
    ]


def test_a_result_can_hold_an_image_wherever_it_is_stored() -> None:
    blocks = [text("a dot"), {"type": "image", "source": PNG}]
    nested = {"type": "tool_result", "tool_call_id": "t", "output": blocks}
    expected = [text("a dot"), {"type": "image", "source": PNG}]

    assert wire("tool", blocks, tool_call_id="t")[0]["content"] == expected
    assert wire("tool", [nested], tool_call_id="t")[0]["content"] == expected


@pytest.mark.parametrize(
    "source",
    [
        {"type": "base64", "media_type": "image/bmp", "data": "aGk="},
        {"type": "url", "url": "file:///etc/passwd"},
        {"type": "cloud", "id": "7"},
    ],
)
def test_an_image_the_vendor_does_not_take_leaves_words_and_a_note(source: dict[str, str]) -> None:
    image = {"type": "image", "source": source}

    sent = wired(Message.model_validate({"role": "user", "content": [image]}))

    assert [block["type"] for block in sent.content] == ["text"]
    assert len(sent.lost) == 1


def test_blank_texts_are_left_out_because_the_vendor_refuses_them() -> None:
    assert wire("user", [text(" \n"), text("hi")]) == [text("hi")]
    assert wire("system", "") == []


def test_only_system_texts_at_the_beginning_are_the_system_prompt() -> None:
    roles = ("system", "system", "user", "system")
    messages = [Message(role=role, content=f"{n}") for n, role in enumerate(roles)]

    opening, rest = split_system(messages)

    assert system_prompt(opening) == [text("0"), text("1")]
    assert conversation([wired(message) for message in rest]) == [
        {"role": "user", "content": [text("2"), text("<system>\n3\n</system>")]}
    ]


def test_results_stand_before_what_else_the_user_says() -> None:
    messages = [
        Message(role="user", content="wait"),
        Message(role="tool", tool_call_id="t", content="seen"),
    ]

    joined = conversation([wired(message) for message in messages])

    assert [block["type"] for block in joined[0]["content"]] == ["tool_result", "text"]


def test_a_tool_without_a_type_in_its_schema_gets_one() -> None:
    tool = ToolSpec(name="now", parameters={})

    assert wired_tool(tool) == {"name": "now", "input_schema": {"type": "object"}}


def test_a_tool_of_the_vendors_own_goes_as_it_is() -> None:
    fields: dict[str, Any] = {
        "name": "web_search",
        "parameters": {},
        "type": "web_search_20260209",
        "max_uses": 3,
    }

    assert wired_tool(ToolSpec.model_validate(fields)) == {
        "type": "web_search_20260209",
        "name": "web_search",
        "max_uses": 3,
    }
