"""The worst case of a model call: what it costs at most, and how it can be made to fit."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from amplifier_core.message_models import ChatRequest, Usage
from amplifier_module_hooks_budget.amounts import Amount

# What a call with this usage costs; a ValueError when its counts contradict each other.
Price = Callable[[Usage], Decimal]

# Vendors add instructions of their own, for tools above all.
_UNSEEN = 1_024
# Pictures are billed by their pixels; their bytes, or their address, may be few.
_IMAGE = 10_000


class Fit(NamedTuple):
    """What a call needs when its answer has at most `output_tokens`."""

    amount: Amount
    output_tokens: int


class WorstCase(NamedTuple):
    """A call that is not made yet."""

    price: Price
    input_tokens: int
    # The answer: as long as asked for, long enough not to wait for more, and worth a call at all.
    wanted: int
    enough: int
    least: int

    def fit(self, room: Amount) -> Fit | str:
        """Return what the call needs with the longest answer that fits; or what is lacking."""
        if room.steps < 1:
            return "steps"
        output = int(min(Decimal(self.wanted), room.tokens - self.input_tokens))
        if output < self.least:
            return "tokens"
        output = self._affordable(output, room.usd)
        if output < self.least:
            return "usd"
        tokens = Decimal(self.input_tokens + output)
        return Fit(Amount(self._cost(output), tokens, Decimal(1)), output)

    def _affordable(self, output: int, usd: Decimal) -> int:
        """Return the longest answer, up to `output` tokens, that `usd` pays for."""
        highest, lowest = self._cost(output), self._cost(0)
        if highest <= usd:
            return output
        if lowest > usd:
            return 0
        output = int((usd - lowest) / (highest - lowest) * output)
        # The proportion is not exact where the price rises with the length of the answer.
        while output and self._cost(output) > usd:
            output //= 2
        return output

    def _cost(self, output_tokens: int) -> Decimal:
        """Return the highest price; some vendors take more for what they write into a cache."""
        total = self.input_tokens + output_tokens
        plain = Usage(
            input_tokens=self.input_tokens, output_tokens=output_tokens, total_tokens=total
        )
        written = plain.model_copy(update={"cache_write_tokens": self.input_tokens})
        return max(self.price(plain), self.price(written))


def most_input_tokens(request: ChatRequest) -> int:
    """Return how many tokens a request has at most: one for each byte, for none has less."""
    text = request.model_dump_json(exclude={"metadata"}, warnings=False, fallback=str)
    contents: list[Any] = [message.content for message in request.messages]
    blocks = [block for content in contents if not isinstance(content, str) for block in content]
    images = sum(block.type == "image" for block in blocks)
    return len(text.encode()) + images * _IMAGE + _UNSEEN
