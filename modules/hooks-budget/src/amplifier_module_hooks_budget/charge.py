"""What a call is charged: what the provider reports, unless more than that was seen."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from amplifier_core.message_models import ChatRequest, ChatResponse
from amplifier_module_hooks_budget.amounts import Amount
from amplifier_module_hooks_budget.worst_case import Price

_CHARS_PER_TOKEN = 4
# What of a block is certainly read or written as text; vendors leave out earlier thoughts.
_TEXTS = {"text": "text", "tool_call": "input", "tool_result": "output"}


def charge_for(request: ChatRequest, response: ChatResponse, price: Price) -> Amount | None:
    """Return what a call costs; None when the usage it reports cannot be true.

    That is one that is missing, contradicts itself, or is less than half of what was seen.
    """
    tools = [tool.model_dump_json(exclude_none=True, fallback=str) for tool in request.tools or ()]
    asked = _seen([*tools, *(message.content for message in request.messages)])
    answered, usage = _seen([response.content]), response.usage
    if usage is None or 2 * usage.input_tokens < asked or 2 * usage.output_tokens < answered:
        return None
    more = max(Decimal(1), Decimal(asked) / max(1, usage.input_tokens))
    counts = {
        "input_tokens": max(usage.input_tokens, asked),
        "output_tokens": max(usage.output_tokens, answered),
        "cache_read_tokens": int((usage.cache_read_tokens or 0) * more),
        "cache_write_tokens": int((usage.cache_write_tokens or 0) * more),
    }
    try:
        cost = price(usage.model_copy(update=counts))
    except ValueError:
        return None
    tokens = Decimal(counts["input_tokens"] + counts["output_tokens"])
    return Amount(max(cost, usage.cost_usd or Decimal(0)), tokens)


def _seen(contents: list[Any]) -> int:
    """Return about how many tokens these texts and lists of blocks have."""
    chars = 0
    for content in contents:
        if isinstance(content, str):
            chars += len(content)
        else:
            chars += sum(len(str(getattr(each, _TEXTS.get(each.type, ""), ""))) for each in content)
    return chars // _CHARS_PER_TOKEN
