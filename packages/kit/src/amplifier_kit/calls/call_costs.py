"""The cost of a model call: its worst case before it is made, and its charge afterwards."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from amplifier_core.message_models import ChatRequest, ChatResponse, ContentBlockUnion, Usage
from amplifier_kit.calls.messages import blocks_of
from amplifier_kit.calls.prices import Price, UnknownPriceError
from amplifier_kit.tokens import CHARS_PER_TOKEN

# Failures before the model started, by the names that `provider:retry` reports; after any other
# failure the call may have been billed.
FREE_FAILURES = (
    "AccessDeniedError",
    "AuthenticationError",
    "ConfigurationError",
    "ContextLengthError",
    "InvalidRequestError",
    "NotFoundError",
    "ProviderUnavailableError",
    "QuotaExceededError",
    "RateLimitError",
)

# For instructions that vendors add to a request, above all for tools.
_UNSEEN = 1_024
# Images are billed by their pixels, which neither their bytes nor their URL bound.
_MOST_OF_IMAGE = 10_000
_LIKELY_OF_IMAGE = 1_000
# Tokens of an answer: assumed without a known limit; enough to start without waiting for more
# budget; the least that is worth a call.
_ASSUMED = 8_192
_ENOUGH = 4_096
_LEAST = 256
# What a model writes until its vendor notices that nobody reads any more.
_IN_FLIGHT = 256
# The fields that are certainly billed as text; vendors drop the thinking of earlier turns.
_TEXTS = {"text": "text", "tool_call": "input", "tool_result": "output"}


def is_free(error: BaseException) -> bool:
    """Whether a call that failed with this error was certainly not billed."""
    return type(error).__name__ in FREE_FAILURES or isinstance(error, UnknownPriceError)


class Amount(NamedTuple):
    """What a budget counts: money, tokens and model calls; used, set aside, charged or left."""

    usd: Decimal = Decimal(0)
    tokens: Decimal = Decimal(0)
    steps: Decimal = Decimal(0)

    def plus(self, other: Amount) -> Amount:
        """Return the sum."""
        return Amount(*map(operator.add, self, other))

    def minus(self, other: Amount) -> Amount:
        """Return the difference."""
        return Amount(*map(operator.sub, self, other))

    def at_most(self, other: Amount) -> Amount:
        """Return the lesser of each."""
        return Amount(*map(min, self, other))

    def at_least(self, other: Amount) -> Amount:
        """Return the greater of each."""
        return Amount(*map(max, self, other))

    def lacking(self) -> str | None:
        """Return the name of the first value below zero; None without one."""
        return next((name for name, value in self._asdict().items() if value < 0), None)

    def record(self) -> dict[str, str]:
        """Return it in a form that can be written as JSON."""
        return {name: str(value) for name, value in self._asdict().items()}


NOTHING = Amount()
_INFINITE = Decimal("Infinity")
ENDLESS = Amount(_INFINITE, _INFINITE, _INFINITE)
"""What is left where nothing is limited."""


class Fit(NamedTuple):
    """What a call needs if its answer has at most `output_tokens`."""

    amount: Amount
    output_tokens: int


class WorstCase(NamedTuple):
    """A call before it is made, with an answer of `least` to `wanted` tokens."""

    price: Price
    input_tokens: int
    wanted: int
    least: int = _LEAST

    @property
    def enough(self) -> int:
        """The length of an answer for which a call need not wait for more budget."""
        return min(_ENOUGH, self.wanted)

    def fit(self, left: Amount) -> Fit | str:
        """Return what the call needs with the longest answer that fits, or the name of the lack."""
        if left.steps < 1:
            return "steps"
        least = min(self.least, self.wanted)
        output = int(min(Decimal(self.wanted), left.tokens - self.input_tokens))
        if output < least:
            return "tokens"
        output = self._affordable(output, left.usd)
        if output < least:
            return "usd"
        tokens = Decimal(self.input_tokens + output)
        return Fit(Amount(self._cost(output), tokens, Decimal(1)), output)

    def _affordable(self, output: int, usd: Decimal) -> int:
        """Return the longest answer, up to `output` tokens, that `usd` pays for."""
        highest = self._cost(output)
        lowest = self._cost(0)
        if highest <= usd:
            return output
        if lowest > usd:
            return 0
        output = int(output * (usd - lowest) / (highest - lowest))
        # The proportion is not exact where the price rises with the length of the answer.
        while output and self._cost(output) > usd:
            output //= 2
        return output

    def _cost(self, output_tokens: int) -> Decimal:
        """Return the highest possible cost; some vendors charge more for cache writes."""
        total = self.input_tokens + output_tokens
        plain = Usage(
            input_tokens=self.input_tokens, output_tokens=output_tokens, total_tokens=total
        )
        written = plain.model_copy(update={"cache_write_tokens": self.input_tokens})
        return max(self.price(plain), self.price(written))


def most_input_tokens(request: ChatRequest) -> int:
    """Return the most tokens a request can have: one per byte, as no token is shorter."""
    return len(_dumped(request).encode()) + _images(request) * _MOST_OF_IMAGE + _UNSEEN


def most_output_tokens(request: ChatRequest, defaults: Mapping[str, Any]) -> int:
    """Return how long the answer may be; `defaults` are the provider's, for its usual model."""
    is_usual = not request.model or request.model == defaults.get("model")
    told = defaults.get("max_output_tokens") if is_usual else None
    return request.max_output_tokens or told or _ASSUMED


def likely_tokens(request: ChatRequest, output_tokens: int) -> int:
    """Return about how many tokens a call takes of a vendor's limit."""
    text = len(_dumped(request)) // CHARS_PER_TOKEN
    images = _images(request)
    return text + images * _LIKELY_OF_IMAGE + output_tokens


def charge_for(request: ChatRequest, response: ChatResponse, price: Price) -> Amount | None:
    """Return the charge for a call: what the provider reports, unless more than that was seen.

    None if the report cannot be true: it is missing, contradicts itself, or has less than half of
    what was seen. The charge has no step: that is counted when the call is held.
    """
    tools = [tool.model_dump_json(exclude_none=True, fallback=str) for tool in request.tools or ()]
    read = sum(map(len, tools)) + sum(_chars(blocks_of(message)) for message in request.messages)
    asked = read // CHARS_PER_TOKEN
    answered = _chars(response.content) // CHARS_PER_TOKEN
    usage = response.usage
    if usage is None or 2 * usage.input_tokens < asked or 2 * usage.output_tokens < answered:
        return None
    # Tokens beyond the report are assumed to be cached in the same proportion as the others.
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
    tokens = counts["input_tokens"] + counts["output_tokens"]
    return Amount(max(cost, usage.cost_usd or Decimal(0)), Decimal(tokens))


class PartialAnswer(NamedTuple):
    """What is known of an answer that was cancelled before its end."""

    # The last report; its input is complete.
    reported: Usage
    # Bytes of the answer that arrived: no token is shorter.
    received: int
    # `reported`: the report has all of the output; `estimated`: what arrived is about all that was
    # written; `unknown`: more may have been written, such as thinking that is not shown.
    output: Literal["reported", "estimated", "unknown"]

    def record(self) -> dict[str, Any]:
        """Return it in a form that can be written as JSON."""
        usage = self.reported.model_dump(mode="json", exclude_none=True)
        return {"usage": usage, "received": self.received, "output": self.output}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> PartialAnswer:
        """Return what `record` wrote; other fields are ignored."""
        usage = Usage.model_validate(record["usage"])
        return cls(usage, record["received"], record["output"])

    def usage(self, most_output: int) -> Usage:
        """Return what may have been used at most, with an output of at most `most_output`."""
        written = self.reported.output_tokens
        if self.output == "unknown":
            written = max(written, most_output)
        elif self.output == "estimated":
            written = max(written, min(self.received + _IN_FLIGHT, most_output))
        counts = {
            "output_tokens": written,
            "total_tokens": self.reported.input_tokens + written,
        }
        return self.reported.model_copy(update=counts)


def charge_for_partial(
    request: ChatRequest, partial: PartialAnswer, price: Price, most_output: int
) -> Amount | None:
    """Return the charge for a cancelled call; None if its report cannot be true."""
    answer = ChatResponse(content=[], usage=partial.usage(most_output))
    return charge_for(request, answer, price)


def _dumped(request: ChatRequest) -> str:
    return request.model_dump_json(exclude={"metadata"}, warnings=False, fallback=str)


def _images(request: ChatRequest) -> int:
    blocks = [block for message in request.messages for block in blocks_of(message)]
    return sum(block.type == "image" for block in blocks)


def _chars(blocks: Iterable[ContentBlockUnion]) -> int:
    return sum(len(str(getattr(block, _TEXTS.get(block.type, ""), ""))) for block in blocks)
