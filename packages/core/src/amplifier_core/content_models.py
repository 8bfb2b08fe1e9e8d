"""Content blocks as plain dataclasses, for events and for streaming user interfaces.

What is sent to and received from a provider is in `message_models`. Note one difference when
reading text: `ThinkingContent` has `text`, `ThinkingBlock` has `thinking`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = [
    "ContentBlock",
    "ContentBlockType",
    "TextContent",
    "ThinkingContent",
    "ToolCallContent",
    "ToolResultContent",
]


class ContentBlockType(str, Enum):  # noqa: UP042 - StrEnum would change what str() prints
    """The kind of a block."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"


@dataclass
class ContentBlock:
    """What all blocks share; `raw` keeps the vendor's object and never leaves the process."""

    type: ContentBlockType
    raw: Any | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as data, without `raw`."""
        block = {**vars(self), "type": self.type.value}
        del block["raw"]
        return block


@dataclass
class TextContent(ContentBlock):
    """Text meant for the reader."""

    type: ContentBlockType = ContentBlockType.TEXT
    text: str = ""


@dataclass
class ThinkingContent(ContentBlock):
    """The model's reasoning, as far as the vendor shows it."""

    type: ContentBlockType = ContentBlockType.THINKING
    text: str = ""


@dataclass
class ToolCallContent(ContentBlock):
    """A tool the model wants to run."""

    type: ContentBlockType = ContentBlockType.TOOL_CALL
    id: str = ""
    name: str = ""
    arguments: dict[str, Any] | None = None


@dataclass
class ToolResultContent(ContentBlock):
    """What a tool returned."""

    type: ContentBlockType = ContentBlockType.TOOL_RESULT
    tool_call_id: str = ""
    output: Any = None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as data, without `raw`, and without an empty `error`."""
        block = super().to_dict()
        if not self.error:
            del block["error"]
        return block
