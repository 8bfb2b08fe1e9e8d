"""What is said when a budget has come to its end, so that a person can go on from there."""

from __future__ import annotations

from amplifier_core.message_models import ChatRequest, ChatResponse, Message, TextBlock
from amplifier_module_hooks_budget.ledger import Ledger, Shortage

_QUOTED = 400
LAST_CALL = (
    "The budget for this work is used up. Answer now with what you have, without calling tools, "
    "and say what is still open."
)


def describe(ledger: Ledger, shortage: Shortage) -> str:
    """Return how much of which limit is used."""
    limit, account = shortage
    if limit == "seconds":
        return f"{ledger.seconds():.0f} of {ledger.config.seconds:g} seconds"
    used, most = getattr(account.used, limit), getattr(account.limit, limit)
    if limit == "usd":
        text = f"USD {used:.4f} of {most:.4f}"
    else:
        text = f"{used:,.0f} of {most:,.0f} {'tokens' if limit == 'tokens' else 'model calls'}"
    return text if account.parent is None else f"{text} of this agent's share"


def closing_answer(cause: str, request: ChatRequest) -> ChatResponse:
    """Return an answer that no model gave: why there is none, and what is open."""
    lines = [f"No further model call was made: {cause}."]
    if asked := _last_words(request, "user"):
        lines.append(f"Still open: {asked}")
    if said := _last_words(request, "assistant"):
        lines.append(f"Reached so far: {said}")
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
            return words if len(words) <= _QUOTED else f"{words[:_QUOTED]} ..."
    return ""


def _text(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(block.text for block in message.content if block.type == "text")
