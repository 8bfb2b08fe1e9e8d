"""Convert the kernel's messages and tools to those of the Messages API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel

from amplifier_core.message_models import (
    ContentBlockUnion,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolResultBlock,
    ToolSpec,
)
from amplifier_kit.calls.files import AttachedFile, attached_file
from amplifier_kit.calls.messages import output_text, rich_output, stored_calls, text_of

Wire: TypeAlias = dict[str, Any]

# Extra field of our blocks, with vendor fields that the kernel does not have. Thinking always has
# it: thinking of another vendor, signed by that vendor, would be refused here.
OWN = "anthropic"

THOUGHTS = ("thinking", "redacted_thinking")
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
# Characters in call ids of other vendors that this one refuses.
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")


class Wired(NamedTuple):
    """The wire form of one message; shared between requests, so it must not be changed."""

    role: Literal["user", "assistant"]
    content: list[Wire]
    # Descriptions of what could not be sent.
    lost: list[str]


def system_prompt(opening: list[Message]) -> list[Wire]:
    """Return the system prompt, one block per message."""
    return [block for message in opening for block in _text(text_of(message))]


def wired(message: Message, *, keep_unsigned: bool = False) -> Wired:
    """Return the wire form of a message; with `keep_unsigned`, including unsigned thinking."""
    lost: list[str] = []
    content = message.content
    call_id = message.tool_call_id
    if message.role == "assistant":
        return Wired("assistant", _said(message, keep_unsigned, lost), lost)
    if message.role == "user":
        return Wired("user", _given(content, lost), lost)
    if call_id is not None:
        nested = not isinstance(content, str) and any(b.type == "tool_result" for b in content)
        if nested:
            results = content
        else:
            results = [ToolResultBlock(tool_call_id=call_id, output=content)]
        return Wired("user", _given(results, lost), lost)
    # A system text inside the conversation stays there, in tags. Moved to the vendor's system
    # prompt, it would change the beginning of all later requests and invalidate the cache.
    tag = message.role
    text = text_of(message)
    return Wired("user", _text(f"<{tag}>\n{text}\n</{tag}>") if text.strip() else [], lost)


def conversation(messages: list[Wired]) -> list[Wire]:
    """Return messages with alternating roles and results first, as the vendor requires."""
    joined: list[Wire] = []
    for role, content, _ in messages:
        if content and (not joined or joined[-1]["role"] != role):
            joined.append({"role": role, "content": []})
        if content:
            joined[-1]["content"] += content
    for message in joined:
        blocks: list[Wire] = message["content"]
        blocks.sort(key=lambda block: block["type"] != "tool_result")
    return joined


def wired_tool(tool: ToolSpec) -> Wire:
    """Return a tool; one with a vendor `type` is sent as it is, without a schema."""
    extras = dict(tool.model_extra or {})
    kind = extras.pop("type", None)
    if kind not in (None, "function", "custom"):
        return {"type": kind, "name": tool.name, **extras}
    if tool.description is None:
        described = {}
    else:
        described = {"description": tool.description}
    if "type" in tool.parameters:
        schema = tool.parameters
    else:
        schema = {"type": "object", **tool.parameters}
    return {"name": tool.name, **described, "input_schema": schema, **extras}


def mark_last(blocks: list[Wire]) -> list[Wire]:
    """Return the blocks with a cache breakpoint on the last one."""
    marked = [{**block, "cache_control": {"type": "ephemeral"}} for block in blocks[-1:]]
    return [*blocks[:-1], *marked]


def mark_conversation(messages: list[Wire]) -> list[Wire]:
    """Return messages with cache breakpoints at their end and at the end of the last request."""
    # The second one reads what the last request wrote; the first one writes for the next.
    answers = [place for place, each in enumerate(messages) if each["role"] == "assistant"]
    ends = {len(messages) - 1, answers[-1] - 1 if answers else -1}
    return [
        {**message, "content": mark_last(message["content"])} if place in ends else message
        for place, message in enumerate(messages)
    ]


def _text(text: str) -> list[Wire]:
    """Return a block of text; the vendor refuses blank ones."""
    if text.strip():
        return [{"type": "text", "text": text}]
    return []


def _said(message: Message, keep_unsigned: bool, lost: list[str]) -> list[Wire]:
    calls = {call.id: _call(call) for call in stored_calls(message)}
    content: list[Wire] = []
    if isinstance(message.content, str):
        content += _text(message.content)
    else:
        for block in message.content:
            if block.type != "tool_call":
                content += _said_block(block, keep_unsigned, lost)
            elif block.id in calls:
                content.append({**calls.pop(block.id), **(block.model_extra or {}).get(OWN, {})})
    content += calls.values()
    # The vendor refuses a message that ends with thinking, and a breakpoint on thinking.
    while content and content[-1]["type"] in THOUGHTS:
        content.pop()
    return content


def _said_block(block: ContentBlockUnion, keep_unsigned: bool, lost: list[str]) -> list[Wire]:
    own: Wire | None = (block.model_extra or {}).get(OWN)
    if block.type == "text":
        own = own or {}
        if "type" in own:
            return [own]
        return [{**text, **own} for text in _text(block.text)]
    if block.type == "thinking" and own is not None and (block.signature or keep_unsigned):
        signature = block.signature or ""
        return [{"type": "thinking", "thinking": block.thinking, "signature": signature}]
    if block.type == "redacted_thinking" and own is not None:
        return [{"type": "redacted_thinking", "data": block.data}]
    if block.type == "image":
        lost.append("an image in an answer of the model")
    return []


def _call(call: ToolCall) -> Wire:
    call_id = _NOT_IN_IDS.sub("_", call.id)
    return {"type": "tool_use", "id": call_id, "name": call.name, "input": call.arguments}


def _given(content: str | Sequence[BaseModel], lost: list[str]) -> list[Wire]:
    if isinstance(content, str):
        return _text(content)
    given: list[Wire] = []
    for block in content:
        if isinstance(block, TextBlock):
            given += _text(block.text)
        elif isinstance(block, ImageBlock):
            given.append(_image(block.source, lost))
        elif isinstance(block, ToolResultBlock):
            if (block.model_extra or {}).get("is_error"):
                failed = {"is_error": True}
            else:
                failed = {}
            result = {"content": _output(block.output, lost), **failed}
            call_id = _NOT_IN_IDS.sub("_", block.tool_call_id)
            given.append({"type": "tool_result", "tool_use_id": call_id, **result})
    return given


def _output(output: Any, lost: list[str]) -> str | list[Wire]:
    """Return a tool's output: texts and images as blocks, anything else as text."""
    blocks = rich_output(output)
    if blocks is None:
        return output_text(output)
    return _given(blocks, lost)


def _image(source: Wire, lost: list[str]) -> Wire:
    if file := attached_file(source):
        return _document(file)
    kind = source.get("type")
    media_type = source.get("media_type")
    if kind == "base64" and media_type in _IMAGE_TYPES:
        sent = {"type": "base64", "media_type": media_type, "data": source["data"]}
    elif kind == "url" and str(source.get("url")).startswith(("http://", "https://")):
        sent = {"type": "url", "url": source["url"]}
    else:
        what = f"an image ({media_type or kind})"
        lost.append(what)
        return {"type": "text", "text": f"[{what} that cannot be shown here]"}
    return {"type": "image", "source": sent}


def _document(file: AttachedFile) -> Wire:
    """Return the block for a file; raises `InvalidRequestError` if the vendor does not take it."""
    if file.is_pdf:
        source = {"type": "base64", "media_type": file.media_type, "data": file.data}
    elif file.is_text:
        # The vendor has one type for all texts.
        source = {"type": "text", "media_type": "text/plain", "data": file.text("anthropic")}
    else:
        raise file.refusal("anthropic")
    return {"type": "document", "source": source, "title": file.name}
