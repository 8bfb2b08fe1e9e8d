"""Convert the kernel's requests to the parameters of `chat.completions.create`."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, cast

from amplifier_core.message_models import (
    ChatRequest,
    ContentBlockUnion,
    ImageBlock,
    Message,
    ResponseFormat,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolSpec,
)
from amplifier_kit.calls.files import AttachedFile, attached_file
from amplifier_kit.calls.messages import (
    blocks_of,
    output_text,
    rich_output,
    stored_calls,
    text_of,
)
from amplifier_module_provider_chat_completions.config import ChatCompletionsConfig

# Extra field that marks reasoning of this format, with the field it came in; only such reasoning is
# sent back.
CAME_IN = "chat_completions_field"
# The names that the format allows; with any other, the whole request is refused.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NO_PICTURE = "[a picture that cannot be shown here: results of tools are text only]"


class Wire(NamedTuple):
    """The wire form of one message, which may be several messages, and its lost pictures."""

    messages: list[dict[str, Any]]
    lost_images: int = 0


def convert(message: Message, config: ChatCompletionsConfig) -> Wire:
    """Return the wire form of a message after the leading system text."""
    match message.role:
        case "system" if config.late_system_role == "system":
            return Wire([_message("system", text_of(message))])
        case "system" | "developer" | "function" as role:
            return Wire([_message("user", f"<{role}>\n{text_of(message)}\n</{role}>")])
        case "assistant":
            return Wire([_assistant(message, config)])
        case "user" | "tool":
            return _said_and_returned(message, config.name)


def parameters(
    request: ChatRequest, config: ChatCompletionsConfig, model: str, messages: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the keyword arguments of a call; unset options are left to the server."""
    if request.temperature is None:
        temperature = config.temperature
    else:
        temperature = request.temperature
    wanted = {
        "model": model,
        "messages": messages,
        "tools": list(map(_tool, request.tools)) if request.tools else None,
        "tool_choice": _tool_choice(request.tool_choice) if request.tools else None,
        "response_format": _response_format(request.response_format),
        "temperature": temperature,
        "top_p": request.top_p,
        config.max_tokens_field: request.max_output_tokens or config.max_output_tokens,
        "stop": request.stop or None,
        "reasoning_effort": request.reasoning_effort,
        "extra_body": config.extra_body or None,
    }
    return {key: value for key, value in wanted.items() if value is not None}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": spec.name}
    if spec.description:
        function["description"] = spec.description
    function["parameters"] = spec.parameters or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def _tool_choice(choice: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    if isinstance(choice, dict):
        if "function" in choice:
            return choice
        choice = cast("str | None", choice.get("name") or choice.get("type"))
    if choice is None or choice in ("auto", "none", "required"):
        return choice
    if choice == "any":
        return "required"
    return {"type": "function", "function": {"name": choice}}


def _response_format(asked: ResponseFormat | None) -> dict[str, Any] | None:
    """Return the format of the answer; None for text, which is every server's default."""
    if asked is None or asked.type == "text":
        return None
    if asked.type == "json":
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": "answer", "schema": asked.json_schema}
    if asked.strict is not None:
        schema["strict"] = asked.strict
    return {"type": "json_schema", "json_schema": schema}


def _message(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def _assistant(message: Message, config: ChatCompletionsConfig) -> dict[str, Any]:
    calls = stored_calls(message)
    text = text_of(message)
    wire = _message("assistant", None if calls and not text else text)
    for block in message.content if config.send_reasoning else ():
        if isinstance(block, ThinkingBlock) and (spelled := (block.model_extra or {}).get(CAME_IN)):
            wire[spelled] = wire.get(spelled, "") + block.thinking
    if calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": output_text(call.arguments)},
            }
            for call in calls
        ]
    return wire


def _said_and_returned(message: Message, provider: str) -> Wire:
    """Return the tool results of a message, one message each, followed by its text."""
    blocks = blocks_of(message)
    results = [(b.tool_call_id, b.output) for b in blocks if isinstance(b, ToolResultBlock)]
    if message.role == "tool" and not results:
        results = [(message.tool_call_id or "", message.content)]
    told = [(call_id, *_in_words(output)) for call_id, output in results]
    wire = [_message("tool", text, tool_call_id=call_id) for call_id, text, _ in told]
    if message.role == "user":
        parts = [part for block in blocks if (part := _part(block, provider))]
    else:
        parts = []
    if parts:
        if _NAME.fullmatch(message.name or ""):
            named = {"name": message.name}
        else:
            named = {}
        plain = all(part["type"] == "text" for part in parts)
        if plain:
            said = "\n\n".join(part["text"] for part in parts)
        else:
            said = parts
        wire.append(_message("user", said, **named))
    return Wire(wire, sum(pictures for *_, pictures in told))


def _part(block: ContentBlockUnion, provider: str) -> dict[str, Any] | None:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ImageBlock):
        source = block.source
        if file := attached_file(source):
            return _file(file, provider)
        url = source.get("url") or f"data:{source.get('media_type')};base64,{source.get('data')}"
        return {"type": "image_url", "image_url": {"url": url}}
    return None


def _file(file: AttachedFile, provider: str) -> dict[str, Any]:
    """Return the part for a file; raises `InvalidRequestError` if the format has none for it."""
    if file.is_text:
        return {"type": "text", "text": file.named_text(provider)}
    if file.is_pdf:
        return {"type": "file", "file": {"filename": file.name, "file_data": file.url}}
    raise file.refusal(provider)


def _in_words(output: Any) -> tuple[str, int]:
    """Return a tool's result as text, and how many of its pictures were replaced by text."""
    blocks = rich_output(output)
    if blocks is None:
        return output_text(output), 0
    texts = [block.text if isinstance(block, TextBlock) else _NO_PICTURE for block in blocks]
    return "\n\n".join(texts), texts.count(_NO_PICTURE)
