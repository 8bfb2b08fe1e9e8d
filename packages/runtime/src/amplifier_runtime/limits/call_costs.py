"""What a model call costs, in the billionths of a US dollar that accounts are kept in."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import NamedTuple

from amplifier_core.message_models import ChatRequest, ChatResponse
from amplifier_kit.calls import call_costs
from amplifier_kit.calls.prices import Price

__all__ = ["NANO", "CallCost", "Charge", "Fit", "charge_for", "in_dollars"]

# Whole numbers, the same in every database.
NANO = 1_000_000_000


class Charge(NamedTuple):
    """What is charged for a call."""

    usd: int
    tokens: int

    def at_least(self, fit: Fit) -> Charge:
        """Return the charge when nothing of what was set aside is given back."""
        return Charge(max(self.usd, fit.usd), max(self.tokens, fit.tokens))


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
        return call_costs.WorstCase(*self).enough

    def fit(self, usd: float, tokens: float, calls: float) -> Fit | str:
        """Return what the call needs with the longest answer that fits; or what is lacking."""
        if calls < 1:
            return "calls"
        fit = call_costs.WorstCase(*self).fit(Decimal(usd) / NANO, Decimal(tokens))
        return fit if isinstance(fit, str) else Fit(_nano(fit.usd), fit.tokens, fit.output_tokens)


def charge_for(request: ChatRequest, response: ChatResponse, price: Price) -> Charge | None:
    """Return what a call costs; None when the usage it reports cannot be true."""
    charge = call_costs.charge_for(request, response, price)
    return None if charge is None else Charge(_nano(charge.usd), charge.tokens)


def in_dollars(amount: Charge | Fit) -> call_costs.Charge:
    """Return an amount as people read it."""
    return call_costs.Charge(Decimal(amount.usd) / NANO, amount.tokens)


def _nano(usd: Decimal) -> int:
    return math.ceil(usd * NANO)
