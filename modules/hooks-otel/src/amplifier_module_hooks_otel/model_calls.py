"""Model calls, as attributes of their spans and as metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from opentelemetry.metrics import Meter
from opentelemetry.trace import Span

from amplifier_module_hooks_otel import conventions as name

_COUNTS = {
    name.USAGE_INPUT_TOKENS: "input_tokens",
    name.USAGE_OUTPUT_TOKENS: "output_tokens",
    name.USAGE_CACHE_READ_INPUT_TOKENS: "cache_read_tokens",
    name.USAGE_CACHE_CREATION_INPUT_TOKENS: "cache_write_tokens",
}


@dataclass(slots=True, eq=False)
class ModelCall:
    """A running call; `facts` are the attributes that its metrics share with its span."""

    span: Span
    facts: dict[str, str]
    started: float = field(default_factory=time.perf_counter)
    seconds_to_first_chunk: float | None = None
    ended_ns: int = 0
    counts: dict[str, int] = field(default_factory=dict[str, int])


class Instruments:
    """The metrics of all calls of a tree of sessions."""

    def __init__(self, meter: Meter) -> None:
        self._tokens = meter.create_histogram(
            name.CLIENT_TOKEN_USAGE, "{token}", explicit_bucket_boundaries_advisory=name.TOKEN_STEPS
        )
        self._seconds = meter.create_histogram(
            name.CLIENT_DURATION, "s", explicit_bucket_boundaries_advisory=name.SECOND_STEPS
        )
        self._dollars = meter.create_counter(name.CLIENT_COST, "{USD}")

    def record(self, call: ModelCall, usage: dict[str, Any], error_type: str | None) -> None:
        """Record that a call has ended, in the metrics and in its span."""
        call.ended_ns, call.counts, cost = time.time_ns(), counts_in(usage), _cost_in(usage)
        failure = {name.ERROR_TYPE: error_type} if error_type else {}
        self._seconds.record(time.perf_counter() - call.started, {**call.facts, **failure})
        for kind, key in (("input", name.USAGE_INPUT_TOKENS), ("output", name.USAGE_OUTPUT_TOKENS)):
            if key in call.counts:
                self._tokens.record(call.counts[key], {**call.facts, name.TOKEN_TYPE: kind})
        call.span.set_attributes(call.counts)
        if cost is not None:
            self._dollars.add(float(cost), call.facts)
            call.span.set_attributes({name.COST_USD: float(cost), name.COST_USD_EXACT: str(cost)})
        if (seconds := call.seconds_to_first_chunk) is not None:
            call.span.set_attribute(name.RESPONSE_TIME_TO_FIRST_CHUNK, seconds)


def counts_in(usage: dict[str, Any]) -> dict[str, int]:
    """Return the token counts, by their attributes."""
    return {key: usage[own] for key, own in _COUNTS.items() if type(usage.get(own)) is int}


def _cost_in(usage: dict[str, Any]) -> Decimal | None:
    """Return a cost with all its digits; None if it is unknown or not valid."""
    try:
        cost = Decimal(str(usage.get("cost_usd")))
    except InvalidOperation:
        return None
    if cost.is_finite() and cost >= 0:
        return cost
    return None
