"""Convert a request to the parameters of `POST /responses`."""

from __future__ import annotations

import json
import re
from itertools import takewhile
from typing import Any, cast

from amplifier_core.llm_errors import InvalidRequestError
from amplifier_core.message_models import (
    ChatRequest,
    Degradation,
    ImageBlock,
    Message,
    ReasoningBlock,
    ResponseFormat,
    ResponseFormatJson,
    ResponseFormatJsonSchema,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
    ToolSpec,
)
from amplifier_kit.calls.files import attached_file
from amplifier_kit.calls.messages import (
    Converted,
    blocks_of,
    extended_thinking,
    output_text,
    stored_calls,
    text_of,
)
from amplifier_kit.calls.prefix import Prefix
from amplifier_module_provider_openai.config import OpenAIConfig
from amplifier_module_provider_openai.failures import PROVIDER
from amplifier_module_provider_openai.models import can_think

Item = dict[str, Any]

# The types of office documents begin with these.
_OFFICE = ("application/vnd.", "application/msword", "application/rtf")


def items_of(message: Message, origin: str) -> list[Item]:
    """Return the items of a message; tool results in it come first.

    Reasoning is sent back unchanged, and only to the `origin` it came from: others cannot decrypt
    it and would refuse the whole request.
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
    """Return the part for a text, an image or a file, as a block or a dict; else None."""
    match block:
        case TextBlock(text=text) | {"type": "text", "text": str(text)}:
            return {"type": "input_text", "text": text}
        case ImageBlock(source=source) | {"type": "image", "source": source}:
            return _file(source) or {"type": "input_image", "detail": "auto", **_place(source)}
        case _:
            return None


def _file(source: Any) -> Item | None:
    """Return the part for a file; None if it is an image.

    Raises:
        InvalidRequestError: the API does not take files of this type.
    """
    file = attached_file(source)
    if file is None:
        return None
    if file.is_text:
        # As text, because of a table the API would show the model only the first 1,000 rows.
        return {"type": "input_text", "text": file.named_text(PROVIDER)}
    if not file.is_pdf and not file.media_type.startswith(_OFFICE):
        raise file.refusal(PROVIDER, "PDF, text and office files")
    return {"type": "input_file", "filename": file.name, "file_data": file.url}


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
    """Return the items of an answer; texts without ids, because the server does not store them."""
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
    # The API refuses reasoning without an item after it, as when the answer was cut off there.
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _says_something(item: Item) -> bool:
    """Whether an item is more than an id, which is unknown to a server that stores nothing."""
    return item["type"] != "reasoning" or bool(item.get("encrypted_content") or item.get("content"))


def _say(items: list[Item], text: str, own: dict[str, Any]) -> None:
    """Add a text, to the last item if that is a message of the same phase."""
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


_NO_STOP = Degradation(
    requested="stop sequences",
    actual="an answer without them",
    reason="the Responses API has none",
)
_NO_IMAGE_BACK = Degradation(
    requested="an image in an answer",
    actual="a word in its place",
    reason="the Responses API reads no images of the assistant",
)
_CHOICES = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def wire_of(
    request: ChatRequest, config: OpenAIConfig, convert: Converted[list[Item]], session_id: str
) -> tuple[dict[str, Any], Prefix]:
    """Return the parameters for a repaired request, and its cacheable prefix."""
    leading = list(takewhile(_is_system_text, request.messages))
    rest = request.messages[len(leading) :]
    instructions = "\n\n".join(map(text_of, leading))
    converted = convert(rest)
    model = request.model or config.default_model
    tools = {f"tool {spec.name}": _tool(spec) for spec in request.tools or ()}
    choice = _tool_choice(request.tool_choice)
    options = {"model": model, **_reasoning(request, config), **_text(request.response_format)}
    parameters: dict[str, Any] = {
        **options,
        "instructions": instructions or None,
        "input": [item for items in converted for item in items],
        "tools": list(tools.values()) or None,
        "tool_choice": choice if tools or choice not in ("auto", "none") else None,
        "max_output_tokens": request.max_output_tokens or config.max_output_tokens,
        "temperature": config.temperature if request.temperature is None else request.temperature,
        "top_p": request.top_p,
        # Nothing stays on the server. Reasoning can then be sent back only in its encrypted form.
        "store": False,
        "include": ["reasoning.encrypted_content"] if can_think(model) else None,
        # At most 64 characters; the ids of child sessions differ at their end.
        "prompt_cache_key": session_id[-64:] or None if config.use_prompt_cache_key else None,
    }
    head = [("options", options), *tools.items(), ("system", instructions)]
    given = {key: value for key, value in parameters.items() if value is not None}
    return given, Prefix(head, converted, rest)


def _is_system_text(message: Message) -> bool:
    content = message.content
    is_text = isinstance(content, str) or all(block.type == "text" for block in content)
    return message.role == "system" and is_text


def _tool(spec: ToolSpec) -> dict[str, Any]:
    """Return a function, or the vendor's own tool if the spec names its `type`."""
    extra = spec.model_extra or {}
    if extra.get("type", "function") != "function":
        return dict(extra)
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters or {"type": "object", "properties": {}},
        # The API's default is strict, which refuses most schemas.
        "strict": extra.get("strict", False),
    }


def _tool_choice(choice: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    """Return the choice in this API's form, from the form of any vendor."""
    match choice:
        case str():
            return _CHOICES.get(choice) or {"type": "function", "name": choice}
        case {"type": "function", "function": {"name": name}} | {"type": "tool", "name": name}:
            return {"type": "function", "name": name}
        case {"type": str(kind)} if kind in _CHOICES:
            return _CHOICES[kind]
        case _:
            return choice


def _reasoning(request: ChatRequest, config: OpenAIConfig) -> dict[str, Any]:
    asked = request.reasoning_effort or config.reasoning_effort
    thinks = can_think(request.model or config.default_model)
    effort = asked or ("medium" if thinks and extended_thinking(request) else None)
    if effort is None:
        return {}
    if config.reasoning_summary:
        summary = {"summary": config.reasoning_summary}
    else:
        summary = {}
    return {"reasoning": {"effort": effort, **summary}}


def _text(form: ResponseFormat | None) -> dict[str, Any]:
    if isinstance(form, ResponseFormatJson):
        return {"text": {"format": {"type": "json_object"}}}
    if not isinstance(form, ResponseFormatJsonSchema):
        return {}
    name = re.sub(r"[^A-Za-z0-9_-]", "_", form.json_schema.get("title") or "answer")[:64]
    wanted = {"type": "json_schema", "name": name, "schema": form.json_schema}
    return {"text": {"format": {**wanted, "strict": bool(form.strict)}}}


def shortfalls_of(request: ChatRequest) -> list[Degradation]:
    """Return which parts of a request the API cannot fulfil."""
    found: list[Degradation] = []
    if request.stop:
        found.append(_NO_STOP)
    answers = [message for message in request.messages if message.role == "assistant"]
    if any(block.type == "image" for answer in answers for block in blocks_of(answer)):
        found.append(_NO_IMAGE_BACK)
    return found
