"""What a request becomes on the wire."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from amplifier_core import ChatRequest, Message, ToolSpec
from amplifier_core.llm_errors import InvalidRequestError
from amplifier_kit.calls.messages import Converted
from amplifier_module_provider_openai.config import OpenAIConfig
from amplifier_module_provider_openai.to_wire import items_of, shortfalls_of, wire_of

HERE = "api.openai.com"
REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "gAAA+/==",
}
CALL = {"type": "tool_call", "id": "call_1", "name": "look", "input": {"ö": [1, 2.5]}}


def thought(item: dict[str, Any] = REASONING, origin: str = HERE) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "hm", "content": [item], "origin": origin}


def items(role: str, content: Any, **fields: Any) -> list[dict[str, Any]]:
    message = Message.model_validate({"role": role, "content": content, **fields})
    return items_of(message, HERE)


def asked(*messages: dict[str, Any], **fields: Any) -> ChatRequest:
    return ChatRequest.model_validate({"messages": list(messages), **fields})


def wire(
    *messages: dict[str, Any], config: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    convert = Converted(partial(items_of, origin=HERE))
    settings = OpenAIConfig.model_validate(config or {})
    return wire_of(asked(*messages, **fields), settings, convert, "session-1")[0]


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


# --- what the model said, on its way back ---------------------------------------------------------


def test_reasoning_goes_back_as_it_came_and_before_its_calls() -> None:
    second = {**REASONING, "id": "rs_2"}

    sent = items("assistant", [thought(), thought(second), CALL])

    assert sent[:2] == [REASONING, second]
    assert sent[2] == {
        "type": "function_call",
        "call_id": "call_1",
        "name": "look",
        "arguments": '{"ö":[1,2.5]}',
    }


@pytest.mark.parametrize(
    "block",
    [
        thought(origin="127.0.0.1"),
        {"type": "thinking", "thinking": "hm", "signature": "signed"},
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "reasoning", "content": ["sealed", "rs_1"], "summary": []},
        thought({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}),
    ],
    ids=["another server", "another vendor", "redacted", "another form", "nothing but an id"],
)
def test_reasoning_that_the_server_cannot_read_is_not_sent(block: dict[str, Any]) -> None:
    sent = items("assistant", [block, {"type": "text", "text": "so"}])

    assert [item["type"] for item in sent] == ["message"]


def test_reasoning_in_clear_goes_back_to_the_server_that_wrote_it() -> None:
    clear: dict[str, Any] = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "",
    }
    clear["content"] = [{"type": "reasoning_text", "text": "hm"}]

    assert items("assistant", [thought(clear), CALL])[0] == clear


def test_reasoning_that_led_to_nothing_is_not_sent_to_be_refused() -> None:
    assert items("assistant", [{"type": "text", "text": "so"}, thought()])[-1]["type"] == "message"
    assert items("assistant", [thought()]) == []


def test_what_a_tool_of_the_vendor_did_goes_back_in_its_place() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    block = {"type": "reasoning", "content": [search], "summary": [], "origin": HERE}

    sent = items("assistant", [block, {"type": "text", "text": "found"}])

    assert [item["type"] for item in sent] == ["web_search_call", "message"]


def test_texts_are_one_message_per_phase() -> None:
    commentary = {"type": "text", "text": "wait", "phase": "commentary", "origin": HERE}
    final = {"type": "text", "text": "done", "phase": "final_answer", "origin": HERE}

    sent = items("assistant", [commentary, {**commentary, "text": "more"}, final])

    assert [item["phase"] for item in sent] == ["commentary", "final_answer"]
    assert [part["text"] for part in sent[0]["content"]] == ["wait", "more"]


def test_a_phase_of_another_server_stays_here() -> None:
    block = {"type": "text", "text": "wait", "phase": "commentary", "origin": "127.0.0.1"}

    assert "phase" not in items("assistant", [block])[0]


def test_a_refusal_goes_back_as_a_refusal() -> None:
    block = {"type": "text", "text": "No.", "refusal": "No.", "origin": HERE}

    [sent] = items("assistant", [{"type": "text", "text": "Well."}, block])

    assert sent["content"][1] == {"type": "refusal", "refusal": "No."}


def test_an_image_of_the_assistant_is_named_and_the_loss_admitted() -> None:
    image = {"type": "image", "source": {"url": "https://a.example/c.png"}}

    [lost] = shortfalls_of(asked(said("assistant", "Here:"), said("assistant", [image])))

    assert items("assistant", [image])[0]["content"][0]["text"] == "[image]"
    assert "image" in lost.requested


# --- what was said to the model -------------------------------------------------------------------


def test_results_inside_a_users_message_come_before_what_the_user_says() -> None:
    result = {"type": "tool_result", "tool_call_id": "call_1", "output": {"size": 3}}

    sent = items("user", [{"type": "text", "text": "and?"}, result])

    assert sent == [
        {"type": "function_call_output", "call_id": "call_1", "output": '{"size": 3}'},
        {"role": "user", "content": [{"type": "input_text", "text": "and?"}]},
    ]


def test_a_result_of_texts_and_images_keeps_both() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    output = [{"type": "text", "text": "a cat"}, {"type": "image", "source": source}]
    result = {"type": "tool_result", "tool_call_id": "call_1", "output": output}

    [sent] = items("tool", [result], tool_call_id="call_1")

    url = "data:image/png;base64,aGk="
    assert sent["output"] == [
        {"type": "input_text", "text": "a cat"},
        {"type": "input_image", "detail": "auto", "image_url": url},
    ]


def test_a_list_that_only_looks_like_blocks_is_sent_as_json() -> None:
    result = {"type": "tool_result", "tool_call_id": "c", "output": [{"type": "text"}, 1]}

    assert items("tool", [result], tool_call_id="c")[0]["output"] == '[{"type": "text"}, 1]'


def test_an_image_without_a_known_source_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidRequestError, match="source"):
        items("user", [{"type": "image", "source": {"type": "carrier pigeon"}}])


def test_leading_system_texts_are_the_instructions_and_later_ones_keep_their_place() -> None:
    made = wire(said("system", "A"), said("system", "B"), said("user", "hi"), said("system", "C"))

    assert made["instructions"] == "A\n\nB"
    assert [item["role"] for item in made["input"]] == ["user", "system"]


def test_a_system_image_is_an_item_because_instructions_are_text() -> None:
    image = {"type": "image", "source": {"url": "https://a.example/c.png"}}

    made = wire(said("system", "A"), said("system", [image]), said("user", "hi"))

    assert made["instructions"] == "A"
    assert made["input"][0]["content"][0]["type"] == "input_image"


def test_a_developer_has_a_role_of_its_own() -> None:
    assert items("developer", "Use tabs.")[0]["role"] == "developer"


# --- parameters -----------------------------------------------------------------------------------


def test_nothing_is_left_on_the_server() -> None:
    sent = wire(said("user", "hi"))

    assert sent["store"] is False
    assert sent["include"] == ["reasoning.encrypted_content"]
    assert "previous_response_id" not in sent


def test_a_model_that_does_not_think_is_not_asked_for_its_thoughts() -> None:
    made = wire(said("user", "hi"), model="gpt-4o-mini", extended_thinking=True)

    assert not made.keys() & {"include", "reasoning"}


@pytest.mark.parametrize(
    ("fields", "config", "expected"),
    [
        ({}, {}, None),
        ({"extended_thinking": True}, {}, {"effort": "medium", "summary": "auto"}),
        ({"extended_thinking": False}, {}, None),
        ({"reasoning_effort": "high"}, {}, {"effort": "high", "summary": "auto"}),
        ({}, {"reasoning_effort": "low"}, {"effort": "low", "summary": "auto"}),
        (
            {"reasoning_effort": "high"},
            {"reasoning_effort": "low", "reasoning_summary": None},
            {"effort": "high"},
        ),
    ],
)
def test_the_model_thinks_as_hard_as_it_was_asked_to(
    fields: dict[str, Any], config: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    made = wire(said("user", "hi"), config=config, **fields)

    assert made.get("reasoning") == expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("any", "required"),
        ("look", {"type": "function", "name": "look"}),
        ({"type": "function", "name": "look"}, {"type": "function", "name": "look"}),
        ({"type": "function", "function": {"name": "look"}}, {"type": "function", "name": "look"}),
        ({"type": "tool", "name": "look"}, {"type": "function", "name": "look"}),
        ({"type": "any"}, "required"),
        ({"type": "web_search_preview"}, {"type": "web_search_preview"}),
    ],
)
def test_a_choice_is_understood_in_every_vendors_form(choice: Any, expected: Any) -> None:
    tools: list[dict[str, Any]] = [{"name": "look", "parameters": {}}]

    made = wire(said("user", "hi"), tools=tools, tool_choice=choice)

    assert made["tool_choice"] == expected


def test_a_choice_without_tools_is_sent_only_if_it_asks_for_one() -> None:
    assert "tool_choice" not in wire(said("user", "hi"), tool_choice="auto")
    assert wire(said("user", "hi"), tool_choice="required")["tool_choice"] == "required"


def test_a_tool_is_strict_only_when_it_says_so() -> None:
    tools: list[Any] = [
        ToolSpec(name="a", parameters={}),
        ToolSpec.model_validate({"name": "b", "parameters": {}, "strict": True}),
        ToolSpec.model_validate({"name": "c", "parameters": {}, "type": "web_search"}),
    ]

    sent = wire(said("user", "hi"), tools=tools)["tools"]

    assert [tool.get("strict") for tool in sent] == [False, True, None]
    assert sent[0]["parameters"] == {"type": "object", "properties": {}}
    assert sent[2] == {"type": "web_search"}


def test_a_schema_has_a_name_that_the_api_accepts() -> None:
    schema = {"title": "Große Stadt " * 9, "type": "object"}
    form = {"type": "json_schema", "schema": schema, "strict": True}

    sent = wire(said("user", "hi"), response_format=form)["text"]["format"]

    assert sent["schema"] == schema
    assert sent["strict"] is True
    assert sent["name"].startswith("Gro_e_Stadt_")
    assert len(sent["name"]) == 64


def test_json_without_a_schema_can_be_asked_for() -> None:
    made = wire(said("user", "hi"), response_format={"type": "json"})

    assert made["text"] == {"format": {"type": "json_object"}}


def test_stop_sequences_are_admitted_to_be_missing() -> None:
    [lost] = shortfalls_of(asked(said("user", "hi"), stop=["END"]))

    assert "stop" not in wire(said("user", "hi"), stop=["END"])
    assert lost.requested == "stop sequences"


def test_a_request_that_the_api_can_do_falls_short_of_nothing() -> None:
    assert shortfalls_of(asked(said("user", "hi"), said("assistant", "hello"))) == []
