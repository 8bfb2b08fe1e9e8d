"""What a model call costs: at most, before it is made; and in truth, as far as that can be seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from amplifier_core.message_models import ChatRequest, ChatResponse, Usage

__all__ = [
    "NANO",
    "CallCost",
    "Charge",
    "Fit",
    "Price",
    "charge_for",
    "likely_tokens",
    "most_input_tokens",
]

# Money is counted in billionths of a US dollar: whole numbers, the same in every database.
NANO = 1_000_000_000
Price = Callable[[Usage], Decimal]

# Vendors add instructions of their own; pictures are billed by pixels, not by bytes.
_UNSEEN, _IMAGE = 1_024, 10_000
_CHARS_PER_TOKEN = 4
# With less room for its answer than this, a call is not worth making; with this much, it need not
# wait for more.
_LEAST, _ENOUGH = 256, 4_096
_TEXTS = {"text": "text", "tool_call": "input", "tool_result": "output"}


class Charge(NamedTuple):
    """What is charged for a call."""

    usd: int
    tokens: int


class Fit(NamedTuple):
    """What a call needs when its answer has at most `output_tokens`."""

    usd: int
    tokens: int
    output_tokens: int


class CallCost(NamedTuple):
    """A call that is not made yet, with an answer of up to `wanted` tokens."""

    price: Price
    input_tokens: int
    wanted: int

    @property
    def enough(self) -> int:
        """How long an answer may be at least without waiting for more room."""
        return min(_ENOUGH, self.wanted)

    def fit(self, usd: float, tokens: float, calls: float) -> Fit | str:
        """Return what the call needs with the longest answer that fits; or what is lacking."""
        if calls < 1:
            return "calls"
        least = min(_LEAST, self.wanted)
        output = int(min(self.wanted, tokens - self.input_tokens))
        if output < least:
            return "tokens"
        while output >= least and (cost := self._cost(output)) > usd:
            # The proportion of what is left; never by nothing, for prices are not always linear.
            base = self._cost(0)
            share = (usd - base) / (cost - base) if cost > base else 0
            output = min(output - 1, int(output * share))
        if output < least:
            return "usd"
        return Fit(self._cost(output), self.input_tokens + output, output)

    def _cost(self, output_tokens: int) -> int:
        """Return the highest price; some vendors take more for what they write into a cache."""
        total = self.input_tokens + output_tokens
        plain = Usage(
            input_tokens=self.input_tokens, output_tokens=output_tokens, total_tokens=total
        )
        written = plain.model_copy(update={"cache_write_tokens": self.input_tokens})
        return math.ceil(max(self.price(plain), self.price(written)) * NANO)


def most_input_tokens(request: ChatRequest) -> int:
    """Return how many tokens a request has at most: none has less than one byte."""
    return len(_dumped(request).encode()) + _images(request) * _IMAGE + _UNSEEN


def likely_tokens(request: ChatRequest, output_tokens: int) -> int:
    """Return about how many tokens a call takes of a vendor's limit."""
    return len(_dumped(request)) // _CHARS_PER_TOKEN + _images(request) * 1_000 + output_tokens


def charge_for(request: ChatRequest, response: ChatResponse, price: Price) -> Charge | None:
    """Return what a call costs; None when the usage it reports cannot be true.

    That is one that is missing, contradicts itself, or is less than half of what was seen.
    """
    tools = [tool.model_dump_json(exclude_none=True, fallback=str) for tool in request.tools or ()]
    asked = _seen([*tools, *(message.content for message in request.messages)])
    answered, usage = _seen([response.content]), response.usage
    if usage is None or 2 * usage.input_tokens < asked or 2 * usage.output_tokens < answered:
        return None
    counts = {
        "input_tokens": max(usage.input_tokens, asked),
        "output_tokens": max(usage.output_tokens, answered),
    }
    try:
        cost = max(price(usage.model_copy(update=counts)), usage.cost_usd or Decimal(0))
    except ValueError:
        return None
    return Charge(math.ceil(cost * NANO), counts["input_tokens"] + counts["output_tokens"])


def _dumped(request: ChatRequest) -> str:
    return request.model_dump_json(exclude={"metadata"}, warnings=False, fallback=str)


def _images(request: ChatRequest) -> int:
    contents: list[Any] = [message.content for message in request.messages]
    blocks = [block for content in contents if not isinstance(content, str) for block in content]
    return sum(block.type == "image" for block in blocks)


def _seen(contents: list[Any]) -> int:
    """Return about how many tokens these texts and lists of blocks have."""
    chars = 0
    for content in contents:
        if isinstance(content, str):
            chars += len(content)
        else:
            chars += sum(len(str(getattr(each, _TEXTS.get(each.type, ""), ""))) for each in content)
    return chars // _CHARS_PER_TOKEN
