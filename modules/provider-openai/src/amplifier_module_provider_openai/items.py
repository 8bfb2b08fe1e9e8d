"""One message of a conversation as the items that the Responses API reads."""

from __future__ import annotations

import json
from typing import Any, cast

from amplifier_core.llm_errors import InvalidRequestError
from amplifier_core.message_models import (
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
)
from amplifier_kit.calls.messages import blocks_of, output_text, stored_calls
from amplifier_module_provider_openai.failures import PROVIDER

Item = dict[str, Any]


def items_of(message: Message, origin: str) -> list[Item]:
    """Return the items of a message; tool results that are kept in it come first.

    Reasoning goes back as it came, and only to the `origin` it came from: others cannot decrypt it
    and would refuse the whole request.
    """
    if message.role == "assistant":
        return _assistant_items(message, origin)
    blocks = blocks_of(message)
    items = [
        _result(block.tool_call_id, _output(block.output))
        for block in blocks
        if isinstance(block, ToolResultBlock)
    ]
    parts = [part for block in blocks if (part := _part(block))]
    if items and not parts:
        return items
    if message.role in ("tool", "function") and message.tool_call_id is not None:
        if isinstance(message.content, str):
            output = message.content
        else:
            output = parts
        return [*items, _result(message.tool_call_id, output)]
    if message.role in ("system", "developer"):
        role = message.role
    else:
        role = "user"
    return [*items, {"role": role, "content": parts}]


def _result(call_id: str, output: str | list[Item]) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _output(output: Any) -> str | list[Item]:
    """Return a tool's output: texts and images as parts, anything else as text."""
    if isinstance(output, list) and output:
        parts = [_part(each) for each in cast("list[Any]", output)]
        known = [part for part in parts if part]
        if len(known) == len(parts):
            return known
    return output_text(output)


def _part(block: Any) -> Item | None:
    """Return a text or an image, a block or the dict of one; None for anything else."""
    match block:
        case TextBlock(text=text) | {"type": "text", "text": str(text)}:
            return {"type": "input_text", "text": text}
        case ImageBlock(source=source) | {"type": "image", "source": source}:
            return {"type": "input_image", "detail": "auto", **_place(source)}
        case _:
            return None


def _place(source: Any) -> Item:
    match source:
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            return {"image_url": f"data:{media_type};base64,{data}"}
        case {"url": str(url)}:
            return {"image_url": url}
        case _:
            message = "An image has a `source` of base64 data, or one with a `url`"
            raise InvalidRequestError(message, provider=PROVIDER)


def _assistant_items(message: Message, origin: str) -> list[Item]:
    """Return what the model said; ids of texts mean nothing to a server without memory."""
    items: list[Item] = []
    calls = {call.id: call for call in stored_calls(message)}
    for block in blocks_of(message):
        extra = block.model_extra or {}
        own = extra if extra.get("origin") == origin else {}
        if isinstance(block, TextBlock):
            _say(items, block.text, own)
        elif isinstance(block, ThinkingBlock | ReasoningBlock):
            items += [item for item in block.content or () if own and _says_something(item)]
        elif isinstance(block, ToolCallBlock) and block.id in calls:
            items.append(_call(calls.pop(block.id)))
        elif isinstance(block, ImageBlock):
            _say(items, "[image]", {})
    items += map(_call, calls.values())
    # Reasoning that led to nothing, as when an answer was cut off in it, would be refused.
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _says_something(item: Item) -> bool:
    """Whether an item is more than the id of something that the server has not kept."""
    return item["type"] != "reasoning" or bool(item.get("encrypted_content") or item.get("content"))


def _say(items: list[Item], text: str, own: dict[str, Any]) -> None:
    """Add a text, to the item before if that is speech of the same phase."""
    if not text:
        return
    said = {"type": "output_text", "text": text}
    if own.get("refusal"):
        part = {"type": "refusal", "refusal": text}
    else:
        part = said
    phase = {"phase": own["phase"]} if own.get("phase") else {}
    if items and items[-1]["type"] == "message" and items[-1].get("phase") == phase.get("phase"):
        items[-1]["content"].append(part)
    else:
        items.append({"type": "message", "role": "assistant", "content": [part], **phase})


def _call(call: ToolCall) -> Item:
    arguments = json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"))
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}
