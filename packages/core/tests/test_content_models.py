"""Tests of the content dataclasses."""

from __future__ import annotations

from dataclasses import is_dataclass

import pytest
from pydantic import BaseModel

from amplifier_core.content_models import (
    ContentBlock,
    ContentBlockType,
    TextContent,
    ThinkingContent,
    ToolCallContent,
    ToolResultContent,
)


@pytest.mark.parametrize(
    ("block", "data"),
    [
        (ContentBlock(ContentBlockType.TEXT), {"type": "text"}),
        (TextContent(text="hi"), {"type": "text", "text": "hi"}),
        (ThinkingContent(text="hm"), {"type": "thinking", "text": "hm"}),
        (
            ToolCallContent(id="1", name="bash", arguments={"a": 1}),
            {"type": "tool_call", "id": "1", "name": "bash", "arguments": {"a": 1}},
        ),
        (
            ToolResultContent(tool_call_id="1", output="ok"),
            {"type": "tool_result", "tool_call_id": "1", "output": "ok"},
        ),
        (
            ToolResultContent(tool_call_id="1", error="no"),
            {"type": "tool_result", "tool_call_id": "1", "output": None, "error": "no"},
        ),
    ],
)
def test_a_block_becomes_plain_data(block: ContentBlock, data: dict[str, object]) -> None:
    assert is_dataclass(block)
    assert block.to_dict() == data


def test_the_vendors_object_stays_in_the_process() -> None:
    block = TextContent(text="hi", raw=object())

    assert "raw" not in block.to_dict()


def test_the_defaults_are_empty() -> None:
    call = ToolCallContent()

    assert (call.type, call.raw, call.id, call.name) == (ContentBlockType.TOOL_CALL, None, "", "")
    assert call.arguments is None


def test_a_pydantic_model_can_hold_blocks() -> None:
    class Answer(BaseModel):
        blocks: list[TextContent | ThinkingContent | ToolCallContent]

    block = ThinkingContent(text="hm")

    assert Answer(blocks=[block]).blocks == [block]
