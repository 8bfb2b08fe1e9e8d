"""Requests to a model and its responses, with their messages and content blocks.

These models keep fields they do not know, because a vendor's state must survive storage and
replay: what is dumped here validates again and reaches the vendor unchanged.
"""

# No `from __future__ import annotations`: pydantic would compile every annotation a second time,
# which takes a sixth of the time this package needs to import.
import binascii
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    WrapSerializer,
)

__all__ = [
    "ChatRequest",
    "ChatResponse",
    "ContentBlockUnion",
    "CostUsd",
    "Degradation",
    "ImageBlock",
    "Message",
    "ReasoningBlock",
    "RedactedThinkingBlock",
    "ResponseFormat",
    "ResponseFormatJson",
    "ResponseFormatJsonSchema",
    "ResponseFormatText",
    "RichOutput",
    "TextBlock",
    "ThinkingBlock",
    "ToolCall",
    "ToolCallBlock",
    "ToolResultBlock",
    "ToolSpec",
    "Usage",
    "Visibility",
]

Visibility = Literal["internal", "developer", "user"]


class _Open(BaseModel, extra="allow", defer_build=True):
    """Keeps fields it does not know."""


class TextBlock(_Open):
    """Text meant for the reader."""

    type: Literal["text"] = "text"
    text: str
    visibility: Visibility | None = None


class ThinkingBlock(_Open):
    """The model's reasoning; `signature` and `content` go back to the vendor untouched."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str | None = None
    visibility: Visibility | None = None
    content: list[Any] | None = None


class RedactedThinkingBlock(_Open):
    """Reasoning the vendor encrypted; `data` goes back untouched."""

    type: Literal["redacted_thinking"] = "redacted_thinking"
    data: str
    visibility: Visibility | None = None


class ToolCallBlock(_Open):
    """A tool the model wants to run."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    input: dict[str, Any]
    visibility: Visibility | None = None


class ToolResultBlock(_Open):
    """What the tool call `tool_call_id` returned."""

    type: Literal["tool_result"] = "tool_result"
    tool_call_id: str
    output: Any
    visibility: Visibility | None = None


class ImageBlock(_Open):
    """A picture; `source` says where its bytes are, in the vendor-neutral base64 or URL form."""

    type: Literal["image"] = "image"
    source: dict[str, Any]
    visibility: Visibility | None = None


class ReasoningBlock(_Open):
    """Reasoning in the form of vendors that return it as content and summary."""

    type: Literal["reasoning"] = "reasoning"
    content: list[Any]
    summary: list[Any]
    visibility: Visibility | None = None


ContentBlockUnion = Annotated[
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolCallBlock
    | ToolResultBlock
    | ImageBlock
    | ReasoningBlock,
    Field(discriminator="type"),
]


def _plain_source(source: object) -> dict[str, str]:
    fields = cast("dict[str, object]", source) if isinstance(source, dict) else {}
    media_type = fields.get("media_type")
    data = fields.get("data")
    if fields.get("type") != "base64":
        raise ValueError("invalid tool result image source")
    if not isinstance(media_type, str) or not re.fullmatch(r"image/\S+", media_type):
        raise ValueError("invalid tool result image media type")
    if not isinstance(data, str) or not _is_base64(data):
        raise ValueError("invalid tool result image data")
    return {"type": "base64", "media_type": media_type, "data": data}


def _is_base64(text: str) -> bool:
    try:
        return bool(binascii.a2b_base64(text, strict_mode=True))
    except ValueError:
        return False


def _plain_block(block: object) -> dict[str, Any]:
    if isinstance(block, TextBlock | ImageBlock):
        block = block.__dict__
    fields = cast("dict[str, object]", block) if isinstance(block, dict) else {}
    if fields.get("type") == "image":
        return {"type": "image", "source": _plain_source(fields.get("source"))}
    if fields.get("type") == "text" and isinstance(fields.get("text"), str):
        return {"type": "text", "text": fields["text"]}
    raise ValueError("invalid tool result content")


def _plain_blocks(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise ValueError("invalid tool result content")
    return [_plain_block(block) for block in cast("list[object]", value)]


def _dump_blocks(blocks: Any, dump: SerializerFunctionWrapHandler) -> list[dict[str, Any]]:
    """Dump the rich output of a tool; its blocks have no visibility of their own."""
    return [
        {key: value for key, value in block.items() if key != "visibility"}
        for block in dump(blocks)
    ]


# Texts and base64 images without other fields, so that a tool cannot smuggle in vendor state.
RichOutput = Annotated[
    list[TextBlock | ImageBlock], BeforeValidator(_plain_blocks), WrapSerializer(_dump_blocks)
]


def _empty_text(_: None) -> str:
    return ""


if TYPE_CHECKING:
    _Content = str | list[ContentBlockUnion]
else:
    # A separate branch of the union, so that only a None pays for the function call.
    _Content = str | list[ContentBlockUnion] | Annotated[None, AfterValidator(_empty_text)]


class Message(_Open):
    """One entry of a conversation.

    `content` given as None, as assistants that only call tools often send it, becomes "".
    """

    role: Literal["system", "developer", "user", "assistant", "function", "tool"]
    content: _Content
    name: str | None = None
    tool_call_id: str | None = None
    metadata: dict[str, Any] | None = None


class ToolSpec(_Open):
    """A tool as the model sees it; `parameters` is JSON Schema.

    Extra fields ride through, so a vendor's native tool definition fits.
    """

    name: str
    parameters: dict[str, Any]
    description: str | None = None


class ResponseFormatText(BaseModel, defer_build=True):
    """Ask for plain text."""

    type: Literal["text"] = "text"


class ResponseFormatJson(BaseModel, defer_build=True):
    """Ask for any valid JSON."""

    type: Literal["json"] = "json"


class ResponseFormatJsonSchema(BaseModel, defer_build=True):
    """Ask for JSON that fits a schema, read as `json_schema` or `schema`, written as `schema`."""

    type: Literal["json_schema"] = "json_schema"
    json_schema: dict[str, Any] = Field(
        validation_alias=AliasChoices("json_schema", "schema"), serialization_alias="schema"
    )
    strict: bool | None = None


ResponseFormat = ResponseFormatText | ResponseFormatJson | ResponseFormatJsonSchema


class ChatRequest(_Open):
    """Everything one model call needs; what is None is left to the provider."""

    messages: list[Message]
    tools: list[ToolSpec] | None = None
    response_format: ResponseFormat | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    conversation_id: str | None = None
    stream: bool | None = False
    metadata: dict[str, Any] | None = None
    model: str | None = None
    tool_choice: str | dict[str, Any] | None = None
    stop: list[str] | None = None
    reasoning_effort: str | None = None
    timeout: float | None = Field(default=None, description="Seconds.")


class ToolCall(_Open):
    """A tool the model wants to run, as the provider's `parse_tool_calls` returns it."""

    id: str
    name: str
    arguments: dict[str, Any]

    @property
    def input(self) -> dict[str, Any]:
        """The arguments, under the name that `ToolCallBlock` uses."""
        return self.arguments


def _refuse_float(value: object) -> object:
    if isinstance(value, float):
        raise ValueError("cost_usd must be Decimal, not float")
    return value


# Money: floats are refused on input, because they are inexact; dumped as text.
CostUsd = Annotated[
    Decimal,
    BeforeValidator(_refuse_float),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string"}),
]


class Usage(_Open):
    """Tokens and money one call consumed.

    `input_tokens` includes what was read from the cache. A `cost_usd` of None means unknown, 0
    means free.
    """

    input_tokens: int
    output_tokens: int
    total_tokens: int
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_usd: CostUsd | None = None


class Degradation(_Open):
    """What was asked of the provider, what it did instead, and why."""

    requested: str
    actual: str
    reason: str


class ChatResponse(_Open):
    """What a model call returned; providers may subclass it to add fields."""

    content: list[ContentBlockUnion]
    tool_calls: list[ToolCall] | None = None
    usage: Usage | None = None
    degradation: Degradation | None = None
    finish_reason: str | None = None
    metadata: dict[str, Any] | None = None
