"""From a request to the parameters of `POST /responses`."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any

from amplifier_core.message_models import (
    ChatRequest,
    Degradation,
    Message,
    ResponseFormat,
    ResponseFormatJson,
    ResponseFormatJsonSchema,
    ToolSpec,
)
from amplifier_kit.calls.messages import Converted, blocks_of, extended_thinking, text_of
from amplifier_kit.calls.prefix import Prefix
from amplifier_module_provider_openai.config import OpenAIConfig
from amplifier_module_provider_openai.items import Item
from amplifier_module_provider_openai.models import can_think

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
    """Return the parameters for a request whose calls all have their results, and their prefix."""
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
        "store": False,
        "include": ["reasoning.encrypted_content"] if can_think(model) else None,
        # At most 64 characters; a child session differs from others in its end.
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
    """Return a function, or the vendor's own tool when the spec names its `type`."""
    extra = spec.model_extra or {}
    if extra.get("type", "function") != "function":
        return dict(extra)
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters or {"type": "object", "properties": {}},
        # Left out, it would mean strict, and most schemas would be refused.
        "strict": extra.get("strict", False),
    }


def _tool_choice(choice: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    """Return the choice in this API's form, whichever vendor's form it was given in."""
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
    """Return what of a request the API cannot do."""
    found: list[Degradation] = []
    if request.stop:
        found.append(_NO_STOP)
    answers = [message for message in request.messages if message.role == "assistant"]
    if any(block.type == "image" for answer in answers for block in blocks_of(answer)):
        found.append(_NO_IMAGE_BACK)
    return found
