"""Tests of the messages, blocks, requests and responses."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from amplifier_core.content_models import TextContent, ToolCallContent
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    ContentBlockUnion,
    Degradation,
    ImageBlock,
    Message,
    ReasoningBlock,
    RedactedThinkingBlock,
    ResponseFormat,
    ResponseFormatJson,
    ResponseFormatJsonSchema,
    ResponseFormatText,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
    ToolSpec,
    Usage,
)

BLOCKS = [
    TextBlock(text="hi"),
    ThinkingBlock(thinking="hm", signature="sig", content=["enc", "rs_1"]),
    RedactedThinkingBlock(data="xx"),
    ToolCallBlock(id="1", name="bash", input={"command": "ls"}),
    ToolResultBlock(tool_call_id="1", output={"stdout": ""}, visibility="internal"),
    ImageBlock(source={"type": "base64", "media_type": "image/png", "data": "aGk="}),
    ReasoningBlock(content=["c"], summary=["s"]),
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.type)
def test_every_block_survives_storage_and_replay(block: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ContentBlockUnion)

    assert adapter.validate_python(block.model_dump()) == block
    assert adapter.validate_json(block.model_dump_json()) == block


def test_a_vendors_own_fields_survive_storage_and_replay() -> None:
    stored: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "text", "text": "x", "id": "msg_1"}],
    }

    message = Message.model_validate({**stored, "phase": "final"})

    assert message.model_dump(exclude_none=True) == {**stored, "phase": "final"}


def test_a_block_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValidationError, match="hologram"):
        Message.model_validate({"role": "user", "content": [{"type": "hologram"}]})


def test_a_message_takes_text_blocks_and_stored_blocks() -> None:
    assert Message(role="user", content="hi").content == "hi"
    assert Message(role="assistant", content=[BLOCKS[0]]).content == [BLOCKS[0]]
    assert Message.model_validate(
        {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}
    ).content == [BLOCKS[0]]


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "function", "tool"])
def test_a_message_without_content_reads_as_empty_text(role: str) -> None:
    message = Message.model_validate({"role": role, "content": None, "tool_calls": [{"id": "1"}]})

    assert message.content == ""
    assert message.model_dump()["tool_calls"] == [{"id": "1"}]


@pytest.mark.parametrize("wrong", [{"role": "robot", "content": ""}, {"role": "user"}])
def test_a_message_needs_a_known_role_and_some_content(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Message.model_validate(wrong)


def test_a_native_tool_definition_rides_through_a_tool_spec() -> None:
    spec = ToolSpec.model_validate({"name": "web", "parameters": {}, "type": "web_search_2025"})

    assert spec.model_dump()["type"] == "web_search_2025"


@pytest.mark.parametrize("key", ["schema", "json_schema"])
def test_a_json_schema_format_reads_both_names_and_writes_the_wire_name(key: str) -> None:
    wanted = ResponseFormatJsonSchema.model_validate({key: {"type": "object"}, "strict": True})

    dumped = wanted.model_dump(by_alias=True)

    assert wanted.json_schema == {"type": "object"}
    assert dumped == {"type": "json_schema", "schema": {"type": "object"}, "strict": True}
    assert ResponseFormatJsonSchema.model_validate(dumped) == wanted


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "text"}, ResponseFormatText()),
        ({"type": "json"}, ResponseFormatJson()),
        (
            {"type": "json_schema", "schema": {"a": 1}},
            ResponseFormatJsonSchema(json_schema={"a": 1}),
        ),
    ],
)
def test_a_response_format_is_told_by_its_type(
    given: dict[str, Any], expected: ResponseFormat
) -> None:
    request = ChatRequest.model_validate({"messages": [], "response_format": given})

    assert request.response_format == expected


def test_a_request_leaves_everything_but_messages_to_the_provider() -> None:
    request = ChatRequest(messages=[])

    assert request.model_dump(exclude_none=True) == {"messages": [], "stream": False}


def test_a_request_survives_json() -> None:
    request = ChatRequest(
        messages=[Message(role="assistant", content=[*BLOCKS])],
        tools=[ToolSpec(name="bash", parameters={"type": "object"})],
        tool_choice={"type": "tool", "name": "bash"},
        stop=["END"],
        timeout=30.0,
    )

    assert ChatRequest.model_validate_json(request.model_dump_json()) == request


def test_a_tool_call_offers_its_arguments_under_both_names() -> None:
    call = ToolCall(id="1", name="bash", arguments={"command": "ls"})

    assert call.input is call.arguments
    assert call.model_dump() == {"id": "1", "name": "bash", "arguments": {"command": "ls"}}


def test_a_response_survives_json() -> None:
    response = ChatResponse(
        content=[*BLOCKS],
        tool_calls=[ToolCall(id="1", name="bash", arguments={})],
        usage=Usage(input_tokens=1, output_tokens=2, total_tokens=3, cost_usd=Decimal("0.10")),
        degradation=Degradation(requested="a", actual="b", reason="c"),
        finish_reason="stop",
    )

    assert ChatResponse.model_validate_json(response.model_dump_json()) == response


def test_a_response_is_made_of_blocks_not_of_text() -> None:
    with pytest.raises(ValidationError):
        ChatResponse.model_validate({"content": "hi"})


def test_a_provider_may_add_typed_fields_to_its_response() -> None:
    class Extended(ChatResponse):
        content_blocks: list[TextContent | ToolCallContent] | None = None
        text: str | None = None

    response = Extended(content=[], content_blocks=[TextContent(text="hi")], text="hi")

    assert response.content_blocks == [TextContent(text="hi")]
    assert isinstance(response, ChatResponse)


@pytest.mark.parametrize("cost", [Decimal("0.10"), "0.10"])
def test_a_cost_is_exact_inside_and_text_outside(cost: Any) -> None:
    usage = Usage(input_tokens=1, output_tokens=2, total_tokens=3, cost_usd=cost)

    assert usage.cost_usd == Decimal("0.10")
    assert usage.model_dump()["cost_usd"] == "0.10"
    assert usage.model_dump(mode="json")["cost_usd"] == "0.10"


def test_a_whole_number_of_dollars_is_a_cost() -> None:
    usage = Usage.model_validate(
        {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "cost_usd": 5}
    )

    assert usage.cost_usd == Decimal(5)
    assert usage.model_dump()["cost_usd"] == "5"


def test_a_float_is_no_cost() -> None:
    with pytest.raises(ValidationError, match="cost_usd must be Decimal, not float"):
        Usage.model_validate(
            {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "cost_usd": 0.1}
        )


def test_an_unknown_cost_is_none_and_can_be_left_out() -> None:
    usage = Usage(input_tokens=1, output_tokens=2, total_tokens=3)

    assert usage.model_dump()["cost_usd"] is None
    assert usage.model_dump(exclude_none=True) == {
        "input_tokens": 1,
        "output_tokens": 2,
        "total_tokens": 3,
    }
