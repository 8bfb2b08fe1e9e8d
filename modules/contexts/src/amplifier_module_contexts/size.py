"""The size of a message: the characters that a model will read of it."""

from __future__ import annotations

from typing import Any, cast

# Vendors spend a few tokens on the frame of each message.
FRAME = 16
# Vendors bill a picture by its pixels, not by the length of its bytes in base64.
IMAGE = 6_400
# What a call is named among the content blocks.
CALLS = ("tool_call", "tool_use")


def message_size(message: dict[str, Any]) -> int:
    """Return the characters of everything in `message` that is sent to a model."""
    try:
        size = FRAME + sum(_size(value) for key, value in message.items() if key != "metadata")
        if message.get("tool_calls"):
            # Loops store a call among the content blocks as well; it is sent once.
            size -= min(_size(message["tool_calls"]), _size(call_blocks(message)))
        return size
    except RecursionError:
        raise ValueError("Message contains itself, or is nested too deeply") from None


def _size(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        if fields.get("type") == "image":
            return IMAGE
        return sum(len(str(key)) + _size(each) for key, each in fields.items())
    if isinstance(value, list | tuple):
        return sum(_size(each) for each in cast("list[Any]", value))
    if value is None:
        return 0
    return len(str(value))


def call_blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls among the content blocks of a message."""
    content: Any = message.get("content")
    blocks: list[Any] = [each for each in content or () if type(each) is dict]
    return [block for block in blocks if block.get("type") in CALLS]
