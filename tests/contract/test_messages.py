"""Contract of the messages that go to a provider and come back."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from amplifier_core import (
    ChatRequest,
    ChatResponse,
    ContentBlock,
    ContentBlockType,
    Degradation,
    Message,
    ResponseFormat,
    ResponseFormatJson,
    ResponseFormatJsonSchema,
    ResponseFormatText,
    TextBlock,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolCallContent,
    ToolResultContent,
    ToolSpec,
    Usage,
    message_models,
)
from contract.requirements import requirement
from contract.samples import BLOCKS


@requirement("MSG-1", "MSG-2", "MSG-3")
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("visibility", [None, "internal", "developer", "user"])
def test_every_block_survives_storage_with_all_it_carries(
    name: str, visibility: str | None
) -> None:
    data = {**BLOCKS[name], "visibility": visibility, "vendor_state": {"deep": [1]}}
    message = Message.model_validate({"role": "assistant", "content": [data]})

    (block,) = message.content
    assert type(block) is getattr(message_models, name)
    again = Message.model_validate(json.loads(message.model_dump_json()))
    assert again == message
    assert again.model_dump()["content"][0].items() >= data.items()


@requirement("MSG-1")
@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_needs_its_own_fields(name: str) -> None:
    model: type[BaseModel] = getattr(message_models, name)
    optional = {"type", "visibility", "signature"}
    optional |= {"content"} if name == "ThinkingBlock" else {"none"}
    for field in BLOCKS[name].keys() - optional:
        with pytest.raises(ValidationError):
            model.model_validate({k: v for k, v in BLOCKS[name].items() if k != field})
    with pytest.raises(ValidationError):
        model.model_validate({**BLOCKS[name], "visibility": "secret"})


@requirement("MSG-2", "MSG-15")
def test_an_unknown_block_or_bare_text_is_no_response_content() -> None:
    with pytest.raises(ValidationError):
        ChatResponse.model_validate({"content": [{"type": "video"}]})
    with pytest.raises(ValidationError):
        ChatResponse.model_validate({"content": "bare text"})


@requirement("MSG-4")
@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "function", "tool"])
def test_a_message_has_one_of_six_roles(role: str) -> None:
    message = Message.model_validate({"role": role, "content": "hi"})

    assert (message.role, message.content) == (role, "hi")
    assert (message.name, message.tool_call_id, message.metadata) == (None, None, None)
    with pytest.raises(ValidationError):
        Message.model_validate({"role": "robot", "content": "hi"})


@requirement("MSG-5")
def test_a_message_without_content_holds_an_empty_text() -> None:
    message = Message.model_validate({"role": "assistant", "content": None, "tool_calls": []})

    assert message.content == ""


@requirement("MSG-6")
def test_a_stored_assistant_message_becomes_a_message_again() -> None:
    response = ChatResponse.model_validate(
        {"content": list(BLOCKS.values()), "metadata": {"openai:response_id": "r"}}
    )
    stored = {
        "role": "assistant",
        "content": [block.model_dump() for block in response.content],
        "tool_calls": [{"id": "call_1", "tool": "bash", "arguments": {"a": 1}}],
        "metadata": response.metadata,
    }

    message = Message(**stored)  # pyright: ignore[reportArgumentType] - as loops do it

    assert message.content == response.content
    assert message.model_dump()["tool_calls"] == stored["tool_calls"]
    assert message.metadata == response.metadata


@requirement("MSG-7")
def test_a_tool_spec_lets_native_fields_ride_along() -> None:
    native: dict[str, Any] = {"type": "apply_patch", "name": "patch", "parameters": {}}

    spec = ToolSpec(**native)

    assert spec.description is None
    assert spec.model_dump()["type"] == "apply_patch"
    for field in ("name", "parameters"):
        with pytest.raises(ValidationError):
            ToolSpec.model_validate({k: v for k, v in native.items() if k != field})


@requirement("MSG-8")
def test_response_formats_are_told_apart_and_read_back() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseFormat)
    schema = ResponseFormatJsonSchema(json_schema={"type": "object"}, strict=True)

    dumped = schema.model_dump(by_alias=True)

    assert dumped == {"type": "json_schema", "schema": {"type": "object"}, "strict": True}
    assert adapter.validate_python(dumped) == schema
    assert adapter.validate_python({"type": "text"}) == ResponseFormatText()
    assert adapter.validate_python({"type": "json"}) == ResponseFormatJson()


@requirement("MSG-9")
def test_a_request_needs_only_its_messages() -> None:
    request = ChatRequest(messages=[Message(role="user", content="hi")])
    empty = (
        "tools response_format temperature top_p max_output_tokens conversation_id metadata "
        "model tool_choice stop reasoning_effort timeout"
    )

    assert request.stream is False
    assert {name: getattr(request, name) for name in empty.split()} == dict.fromkeys(empty.split())
    assert ChatRequest.model_validate_json(request.model_dump_json()) == request
    with pytest.raises(ValidationError):
        ChatRequest.model_validate({})


@requirement("MSG-10", "MSG-11")
def test_a_tool_call_offers_its_arguments_under_both_names() -> None:
    call = ToolCall(id="call_1", name="bash", arguments={"command": "ls"})

    assert call.input == {"command": "ls"}
    assert call.model_dump() == {"id": "call_1", "name": "bash", "arguments": {"command": "ls"}}
    with pytest.raises(ValidationError):
        ToolCall.model_validate({"id": "call_1", "name": "bash"})


@requirement("MSG-12", "MSG-13")
def test_usage_counts_tokens_and_keeps_money_exact() -> None:
    usage = Usage(input_tokens=3, output_tokens=2, total_tokens=5)
    assert usage.model_dump(exclude_none=True) == {
        "input_tokens": 3,
        "output_tokens": 2,
        "total_tokens": 5,
    }
    assert (usage.reasoning_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (
        None,
        None,
        None,
    )

    priced = usage.model_validate({**usage.model_dump(), "cost_usd": 5})
    assert priced.cost_usd == Decimal(5)
    assert priced.model_dump()["cost_usd"] == "5"
    assert json.loads(priced.model_dump_json())["cost_usd"] == "5"
    with pytest.raises(ValidationError, match="cost_usd must be Decimal, not float"):
        Usage.model_validate({**usage.model_dump(), "cost_usd": 0.5})
    for field in ("input_tokens", "output_tokens", "total_tokens"):
        with pytest.raises(ValidationError):
            Usage.model_validate({k: v for k, v in usage.model_dump().items() if k != field})


@requirement("MSG-14", "MSG-15")
def test_a_response_tells_everything_or_nothing_beside_its_content() -> None:
    bare = ChatResponse(content=[TextBlock(text="hi")])
    optional = ("tool_calls", "usage", "degradation", "finish_reason", "metadata")
    assert [getattr(bare, name) for name in optional] == [None] * 5

    full = ChatResponse(
        content=[],
        tool_calls=[ToolCall(id="1", name="t", arguments={})],
        usage=Usage(input_tokens=1, output_tokens=1, total_tokens=2),
        degradation=Degradation(requested="a", actual="b", reason="c"),
        finish_reason="stop",
        metadata={"k": 1},
    )
    assert ChatResponse.model_validate_json(full.model_dump_json()) == full


class _VendorResponse(ChatResponse):
    content_blocks: list[TextContent | ThinkingContent | ToolCallContent] | None = None
    text: str | None = None
    output_text: str | None = None


@requirement("MSG-16")
def test_a_provider_may_extend_the_response_with_streaming_content() -> None:
    response = _VendorResponse(
        content=[TextBlock(text="hi")],
        content_blocks=[TextContent(text="hi"), ToolCallContent(id="1", name="t", arguments={})],
        text="hi",
    )

    assert isinstance(response, ChatResponse)
    assert response.content_blocks is not None
    assert [type(block) for block in response.content_blocks] == [TextContent, ToolCallContent]


@requirement("MSG-17", "MSG-18", "MSG-19")
@pytest.mark.parametrize(
    ("content", "fields", "told"),
    [
        (TextContent(), {"text": ""}, {"text": ""}),
        (ThinkingContent(), {"text": ""}, {"text": ""}),
        (
            ToolCallContent(),
            {"id": "", "name": "", "arguments": None},
            {"id": "", "name": "", "arguments": None},
        ),
        (
            ToolResultContent(),
            {"tool_call_id": "", "output": None, "error": None},
            {"tool_call_id": "", "output": None},
        ),
    ],
)
def test_streaming_content_is_plain_data(
    content: ContentBlock, fields: dict[str, Any], told: dict[str, Any]
) -> None:
    assert dataclasses.is_dataclass(content)
    assert content.raw is None
    assert {name: getattr(content, name) for name in fields} == fields

    content.raw = object()
    assert content.to_dict() == {"type": content.type.value, **told}
    assert content.type == content.type.value


@requirement("MSG-18", "MSG-19")
def test_streaming_content_names_its_type_and_tells_errors() -> None:
    failed = ToolResultContent(tool_call_id="1", output="x", error="boom")

    assert failed.to_dict()["error"] == "boom"
    assert ContentBlock(ContentBlockType.TEXT, raw=1).to_dict() == {"type": "text"}
    assert [kind.value for kind in ContentBlockType] == [
        "text",
        "thinking",
        "tool_call",
        "tool_result",
    ]
    assert ContentBlockType("tool_call") == "tool_call"
