"""The prices of one provider's models, for whoever pays for its calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amplifier_kit.calls.budget_news import news_of_unpriced
from amplifier_kit.calls.price_table import (
    PriceTable,
    UnknownPriceError,
    find_price,
    listed_price,
    own_table,
)
from amplifier_kit.calls.prices import Price
from amplifier_kit.notices import show


class PriceFinder:
    """Finds each price once, and says once of a model that it has none."""

    def __init__(self, provider: str, module: Any) -> None:
        """`provider` is the name under which `module` is mounted."""
        self._provider = provider
        self._module = module
        self._known: dict[str, Price | None] = {}
        self._admitted: set[str] = set()

    async def find(
        self, model: str, tables: Iterable[PriceTable | None], *, is_limited: bool
    ) -> Price | None:
        """Return what calls of a model cost, None when it is unknown.

        The first of `tables` is that of the root: nobody makes calls cheaper for those above. Where
        dollars are limited, the provider's list of models is asked too.
        """
        price = self._known.get(model)
        if price is None and (is_limited or model not in self._known):
            known = [each for each in (*tables, own_table(self._module)) if each is not None]
            vendor = self._module.get_info().id
            price = await find_price(known, self._provider, vendor, model)
            if price is None and is_limited:
                price = await listed_price(self._module, model)
            self._known[model] = price
        return price

    async def admit_unpriced(
        self, model: str, coordinator: Any, source: str, *, is_refused: bool
    ) -> None:
        """Say once, in the name of `source`, that a model without a price is called all the same.

        Raises:
            UnknownPriceError: it is not. The error says so; a line besides it would say it twice.
        """
        event, facts, line = news_of_unpriced(self._provider, model, is_refused=is_refused)
        if is_refused or model not in self._admitted:
            await coordinator.hooks.emit(event, facts)
        if is_refused:
            raise UnknownPriceError(self._provider, model)
        if model not in self._admitted:
            self._admitted.add(model)
            show(coordinator, line, source=source)
