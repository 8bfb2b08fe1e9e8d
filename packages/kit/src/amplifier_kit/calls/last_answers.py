"""The last answer of a turn that may call no model any more: it can be read, and gone on from."""

from __future__ import annotations

from amplifier_core.message_models import ChatRequest, ChatResponse, Message, TextBlock
from amplifier_kit.calls.messages import blocks_of

_QUOTED = 400


def closing_answer(cause: str, request: ChatRequest) -> ChatResponse:
    """Return an answer that no model gave: why there is none, and what is open."""
    lines = [f"No further model call was made: {cause}."]
    for role, label in (("user", "Still open"), ("assistant", "Reached so far")):
        if words := _last_words(request, role):
            lines.append(f"{label}: {words}")
    return closed(ChatResponse(content=[TextBlock(text="\n\n".join(lines))]))


def closed(response: ChatResponse) -> ChatResponse:
    """Return an answer as the last one of its turn: words only, and marked as cut short."""
    words = [block for block in response.content if block.type == "text"]
    metadata = {**(response.metadata or {}), "budget": "exhausted"}
    ending = {"tool_calls": None, "finish_reason": "length", "metadata": metadata}
    return response.model_copy(update={"content": words, **ending})


def _last_words(request: ChatRequest, role: str) -> str:
    for message in reversed(request.messages):
        if message.role == role and (words := _text(message).strip()):
            if len(words) <= _QUOTED:
                return words
            return f"{words[:_QUOTED]} ..."
    return ""


def _text(message: Message) -> str:
    """Return what was said; unlike for a vendor, results of tools are not."""
    return "\n".join(block.text for block in blocks_of(message) if block.type == "text")
