"""Reading a request: who said what in the running turn."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from amplifier_core.message_models import (
    ChatRequest,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from amplifier_kit.tokens import CHARS_PER_TOKEN


def text_of(message: Message) -> str:
    """Return the text of a message, without its thinking, calls, results and pictures."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock))


def results_in(message: Message) -> list[str]:
    """Return what tools returned in this message, as text."""
    blocks = [] if isinstance(message.content, str) else message.content
    found = [_as_text(block.output) for block in blocks if isinstance(block, ToolResultBlock)]
    return found or ([text_of(message)] if message.role == "tool" else [])


def calls_in(message: Message) -> list[str]:
    """Return the names of the tools an assistant message calls.

    Loops store them beside the content too, in a field that `Message` does not declare.
    """
    if message.role != "assistant":
        return []
    blocks = [] if isinstance(message.content, str) else message.content
    found = [block.name for block in blocks if isinstance(block, ToolCallBlock)]
    listed: Any = (message.model_extra or {}).get("tool_calls") or []
    return found or [str(call.get("tool") or call.get("name") or "a tool") for call in listed]


class Turn(NamedTuple):
    """The running turn: what was asked, which tools were called and what they returned."""

    prompt: str
    called: list[str]
    results: list[str]


def running_turn(request: ChatRequest) -> Turn:
    """Return what happened since the model last answered without calling a tool."""
    prompt = ""
    called = list[str]()
    results = list[str]()
    for message in request.messages:
        calls = calls_in(message)
        found = results_in(message)
        if message.role == "assistant" and not calls:
            prompt = ""
            called = []
            results = []
        called += calls
        results += found
        if message.role == "user" and not found:
            prompt = prompt or text_of(message)
    return Turn(prompt, called, results)


def last_words(request: ChatRequest) -> str:
    """Return the last thing the user said."""
    said = (m for m in reversed(request.messages) if m.role == "user" and not results_in(m))
    return next((text_of(message) for message in said), "")


def estimate_tokens(*parts: Any) -> int:
    """Return a quarter of the characters of all texts in `parts`."""
    return sum(map(_length, parts)) // CHARS_PER_TOKEN


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(str(key)) + _length(each) for key, each in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - any JSON
    if isinstance(value, list | tuple):
        return sum(map(_length, value))  # pyright: ignore[reportUnknownArgumentType] - any JSON
    if hasattr(value, "model_dump"):
        return _length(value.model_dump(exclude_none=True, exclude={"metadata", "type"}))
    if value is None:
        return 0
    return len(str(value))


def _as_text(output: Any) -> str:
    if isinstance(output, str):
        return output
    return json.dumps(output, default=str)
