"""Requests as loops make them, and the parameters they become."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.message_models import (
    ChatRequest,
    Message,
    ResponseFormatJson,
    ResponseFormatJsonSchema,
    ToolSpec,
)
from amplifier_module_provider_chat_completions.config import ChatCompletionsConfig
from amplifier_module_provider_chat_completions.to_wire import convert, parameters

PICTURE = {"type": "base64", "media_type": "image/png", "data": "aGk="}
CALL = {"type": "tool_call", "id": "c1", "name": "look", "input": {"q": "ü"}}
CONFIG = ChatCompletionsConfig()


def wire(config: ChatCompletionsConfig = CONFIG, **message: Any) -> list[dict[str, Any]]:
    return convert(Message(**message), config).messages


def sent(config: ChatCompletionsConfig = CONFIG, **fields: Any) -> dict[str, Any]:
    return parameters(ChatRequest(messages=[], **fields), config, "m", [])


def test_a_system_message_further_down_stays_where_it_is() -> None:
    polite = ChatCompletionsConfig(late_system_role="user")

    assert wire(role="system", content="now") == [{"role": "system", "content": "now"}]
    assert wire(polite, role="system", content="now") == [
        {"role": "user", "content": "<system>\nnow\n</system>"}
    ]


def test_a_developer_speaks_as_a_user_in_tags() -> None:
    assert wire(role="developer", content="Go on.") == [
        {"role": "user", "content": "<developer>\nGo on.\n</developer>"}
    ]


@pytest.mark.parametrize(("name", "kept"), [("ann_1", True), ("Ann B.", False)])
def test_a_name_goes_along_when_the_format_allows_it(name: str, kept: bool) -> None:
    [message] = wire(role="user", content="hi", name=name)

    assert ("name" in message) is kept


def test_an_assistant_that_only_calls_has_no_content() -> None:
    function = {"name": "look", "arguments": '{"q": "ü"}'}

    assert wire(role="assistant", content=[CALL]) == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        }
    ]


def test_thoughts_of_another_vendor_are_never_sent() -> None:
    thoughts: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "secret", "signature": "signed"},
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "reasoning", "content": [], "summary": ["secret"]},
    ]
    faithful = ChatCompletionsConfig(send_reasoning=True)

    assert wire(
        faithful, role="assistant", content=[*thoughts, {"type": "text", "text": "so"}]
    ) == [{"role": "assistant", "content": "so"}]


def test_own_reasoning_goes_back_in_the_field_it_came_in() -> None:
    own = {"type": "thinking", "thinking": "hm", "chat_completions_field": "reasoning"}
    faithful = ChatCompletionsConfig(send_reasoning=True)

    assert wire(faithful, role="assistant", content=[own]) == [
        {"role": "assistant", "content": "", "reasoning": "hm"}
    ]


def test_pictures_are_sent_as_data_or_by_their_address() -> None:
    address = {"type": "url", "url": "https://example.com/a.png"}
    blocks = [
        {"type": "text", "text": "look"},
        {"type": "image", "source": PICTURE},
        {"type": "image", "source": address},
    ]

    [message] = wire(role="user", content=blocks)

    text, data, url = message["content"]
    assert text == {"type": "text", "text": "look"}
    assert data["image_url"]["url"] == "data:image/png;base64,aGk="
    assert url["image_url"]["url"] == "https://example.com/a.png"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("plain", "plain"),
        ({"a": 1}, '{"a": 1}'),
        ([1, 2], "[1, 2]"),
        ([], "[]"),
        ([{"type": "text"}], '[{"type": "text"}]'),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\n\nb"),
    ],
)
def test_the_result_of_a_tool_is_text(output: Any, text: str) -> None:
    block = {"type": "tool_result", "tool_call_id": "c1", "output": output}
    expected = [{"role": "tool", "content": text, "tool_call_id": "c1"}]

    assert wire(role="tool", tool_call_id="c1", content=[block]) == expected
    assert wire(role="user", content=[block]) == expected


def test_a_picture_in_the_result_of_a_tool_becomes_words_and_counts_as_lost() -> None:
    output = [{"type": "text", "text": "here"}, {"type": "image", "source": PICTURE}]
    in_block = [{"type": "tool_result", "tool_call_id": "c1", "output": output}]

    for content in (output, in_block):
        converted = convert(Message(role="tool", tool_call_id="c1", content=content), CONFIG)  # pyright: ignore[reportArgumentType] - validated by pydantic

        [message] = converted.messages
        assert message["content"].startswith("here\n\n[a picture")
        assert "aGk=" not in message["content"]
        assert converted.lost_images == 1


def test_what_nobody_asked_for_is_not_sent() -> None:
    assert sent() == {"model": "m", "messages": []}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ({"type": "any"}, "required"),
        ("look", {"type": "function", "function": {"name": "look"}}),
        ({"type": "tool", "name": "look"}, {"type": "function", "function": {"name": "look"}}),
        (
            {"type": "function", "function": {"name": "look"}},
            {"type": "function", "function": {"name": "look"}},
        ),
    ],
)
def test_a_tool_choice_is_a_word_or_a_function(choice: Any, expected: Any) -> None:
    tools = [ToolSpec(name="look", parameters={})]

    assert sent(tools=tools, tool_choice=choice)["tool_choice"] == expected
    assert "tool_choice" not in sent(tool_choice=choice)


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    [tool] = sent(tools=[ToolSpec(name="look", parameters={})])["tools"]

    assert tool["function"] == {
        "name": "look",
        "parameters": {"type": "object", "properties": {}},
    }


def test_an_answer_can_be_asked_for_as_json_or_by_a_schema() -> None:
    schema = {"type": "object"}
    strict = ResponseFormatJsonSchema(json_schema=schema, strict=True)

    assert sent(response_format=ResponseFormatJson())["response_format"] == {"type": "json_object"}
    assert sent(response_format=strict)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": True},
    }


def test_the_limit_of_an_answer_has_the_field_that_the_server_knows() -> None:
    newer = ChatCompletionsConfig(max_tokens_field="max_completion_tokens", max_output_tokens=9)

    assert sent(newer)["max_completion_tokens"] == 9
    assert sent(newer, max_output_tokens=5)["max_completion_tokens"] == 5
    assert sent(max_output_tokens=5)["max_tokens"] == 5


def test_a_temperature_of_zero_is_a_temperature() -> None:
    warm = ChatCompletionsConfig(temperature=0.7)

    assert sent(warm, temperature=0.0)["temperature"] == 0.0
    assert sent(warm)["temperature"] == 0.7
