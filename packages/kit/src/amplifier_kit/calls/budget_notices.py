"""Messages about a budget, and the answer that closes a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from amplifier_core.message_models import ChatRequest, ChatResponse, Degradation, Message, TextBlock
from amplifier_kit.calls.call_costs import Amount
from amplifier_kit.calls.messages import blocks_of
from amplifier_kit.notices import show

DEGRADED = "provider:degraded"


def joined(shortfalls: Sequence[Degradation]) -> Degradation | None:
    """Merge several shortfalls into the one that a response can carry; None without any."""
    if not shortfalls:
        return None
    told = {
        name: "; ".join(dict.fromkeys(getattr(each, name) for each in shortfalls))
        for name in ("requested", "actual", "reason")
    }
    return Degradation(**told)


EXHAUSTED = "budget:exhausted"
WARNING = "budget:warning"
DOUBTED = "budget:usage_doubted"
OVERRUN = "budget:overrun"
UNPRICED = "budget:price_unknown"


class Notice(NamedTuple):
    """Something to announce to hooks and to the user."""

    event: str
    facts: dict[str, Any]
    line: str


def notice_of_charge(
    provider: str, held: Amount, charged: Amount | None, *, limits_dollars: bool = True
) -> Notice | None:
    """Return a notice about a charge above its worst case, or about a report that cannot be true.

    The latter is a charge of None. Dollars that are not limited have no worst case.
    """
    facts: dict[str, Any] = {"provider": provider, "held": _record(held)}
    if charged is None:
        line = f"`{provider}` reports no usage that can be true: charged the worst case."
        return Notice(DOUBTED, facts, line)
    if (limits_dollars and charged.usd > held.usd) or charged.tokens > held.tokens:
        line = f"A call of `{provider}` cost more than its worst case."
        return Notice(OVERRUN, {**facts, "charged": _record(charged)}, line)
    return None


def notice_of_unpriced(provider: str, model: str, *, is_refused: bool) -> Notice:
    """Return the notice about a model without a price under a budget in dollars."""
    if is_refused:
        way = "it is not called"
    else:
        way = "its calls count as free"
    line = (
        f"No price is known for {provider}/{model}, so {way}; it can be set under `pricing` in the "
        "settings, or `prices` of hooks-budget."
    )
    return Notice(UNPRICED, {"provider": provider, "model": model, "refused": is_refused}, line)


async def announce(coordinator: Any, notice: Notice, *, source: str) -> None:
    """Emit the event and show the message, in the name of `source`."""
    await coordinator.hooks.emit(notice.event, notice.facts)
    show(coordinator, notice.line, source=source)


def _record(amount: Amount) -> dict[str, str]:
    """Return the cost of a call as JSON data, without its step, which is always one."""
    return {"usd": str(amount.usd), "tokens": str(amount.tokens)}


BUDGET = "budget"
"""The finish reason of the last answer of a turn whose budget is used up."""
_QUOTED = 400
_NOT_CALLED = "No further model call was made"


def closing_answer(cause: str, request: ChatRequest) -> ChatResponse:
    """Return an answer made without a model: why no call was made, and what is still open."""
    lines = [f"{_NOT_CALLED}: {cause}."]
    for role, label in (("user", "Still open"), ("assistant", "Reached so far")):
        if words := _last_words(request, role):
            lines.append(f"{label}: {words}")
    return closed(ChatResponse(content=[TextBlock(text="\n\n".join(lines))]))


def closed(response: ChatResponse) -> ChatResponse:
    """Return an answer as the last one of its turn: text only, and ended by its budget."""
    words = [block for block in response.content if block.type == "text"]
    metadata = {**(response.metadata or {}), "budget": "exhausted"}
    ending = {"tool_calls": None, "finish_reason": BUDGET, "metadata": metadata}
    return response.model_copy(update={"content": words, **ending})


def _last_words(request: ChatRequest, role: str) -> str:
    """Return what a role said last; a closing answer of an earlier turn was not said by a model."""
    for message in reversed(request.messages):
        words = _text(message).strip()
        if message.role == role and words and not words.startswith(_NOT_CALLED):
            if len(words) <= _QUOTED:
                return words
            return f"{words[:_QUOTED]} ..."
    return ""


def _text(message: Message) -> str:
    """Return the text blocks of a message; tool results are not quoted to the user."""
    return "\n".join(block.text for block in blocks_of(message) if block.type == "text")
