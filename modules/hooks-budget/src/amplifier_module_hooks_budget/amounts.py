"""Amounts of what a budget counts: money, tokens and model calls."""

from __future__ import annotations

import operator
from decimal import Decimal
from typing import NamedTuple

_ENDLESS = Decimal("Infinity")


class Amount(NamedTuple):
    """What is used, set aside or left."""

    usd: Decimal = Decimal(0)
    tokens: Decimal = Decimal(0)
    steps: Decimal = Decimal(0)

    def plus(self, other: Amount) -> Amount:
        return Amount(*map(operator.add, self, other))

    def minus(self, other: Amount) -> Amount:
        return Amount(*map(operator.sub, self, other))

    def at_most(self, other: Amount) -> Amount:
        return Amount(*map(min, self, other))

    def at_least(self, other: Amount) -> Amount:
        return Amount(*map(max, self, other))

    def lacking(self) -> str | None:
        """Return the name of what is below zero."""
        return next((name for name, value in self._asdict().items() if value < 0), None)

    def record(self) -> dict[str, str]:
        """Return it in a form that can be written as JSON."""
        return {name: str(value) for name, value in self._asdict().items()}


ENDLESS = Amount(_ENDLESS, _ENDLESS, _ENDLESS)


def limit_of(usd: Decimal | None, tokens: int | None, steps: int | None) -> Amount:
    """Return an amount in which None stands for no limit."""
    return Amount(*(_ENDLESS if each is None else Decimal(each) for each in (usd, tokens, steps)))


def amount_from(record: dict[str, str]) -> Amount:
    """Return the amount that a record was made of."""
    return Amount(*(Decimal(record[name]) for name in Amount._fields))
