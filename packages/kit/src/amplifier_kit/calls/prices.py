"""Prices of model calls: the price data, a session's table, and the lookup for a model."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from functools import partial
from typing import Any, cast

from pydantic import ValidationError

from amplifier_core.llm_errors import ConfigurationError
from amplifier_core.message_models import ChatResponse, Usage
from amplifier_core.models import ModelInfo
from amplifier_kit.calls.settings import Pricing

logger = logging.getLogger(__name__)

# What a call with this usage costs; a ValueError when its counts contradict each other.
Price = Callable[[Usage], Decimal]

_MILLION = Decimal(1_000_000)
_NOTHING = Usage(input_tokens=0, output_tokens=0, total_tokens=0)


def load_price_data() -> None:
    """Import the price data and read it once; half a second, so do it in a thread."""
    cost_usd("openai", "", _NOTHING)


def free(usage: Usage) -> Decimal:
    """The price of calls that cost nothing, or whose cost nobody counts."""
    return Decimal(0)


def cost_usd(
    vendor: str | None, model: str, usage: Usage, pricing: Pricing | None = None
) -> Decimal | None:
    """Return the price of a call in US dollars; None if it is unknown.

    `vendor` is the name in the price data; without one, only `pricing` counts.
    """
    if pricing is not None:
        return _by_table(usage, pricing)
    if vendor is None:
        return None
    import genai_prices  # noqa: PLC0415 - heavy; `load_price_data` has imported it by now

    tokens = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        return genai_prices.calc_price(tokens, model, provider_id=vendor).total_price
    except LookupError:
        return None
    except ValueError:
        # The counts contradict each other, so any price made of them would be wrong.
        logger.warning("no price for model=%s usage=%s", model, usage, exc_info=True)
        return None


def _by_table(usage: Usage, pricing: Pricing) -> Decimal:
    read = usage.cache_read_tokens or 0
    written = usage.cache_write_tokens or 0
    plain = max(0, usage.input_tokens - read - written)
    if pricing.cache_read is None:
        read_price = pricing.input
    else:
        read_price = pricing.cache_read
    if pricing.cache_write is None:
        write_price = pricing.input
    else:
        write_price = pricing.cache_write
    total = plain * pricing.input + read * read_price + written * write_price
    return (total + usage.output_tokens * pricing.output) / _MILLION


# The capability under which a session has its table, and the key of a mount plan with its prices.
CAPABILITY = "prices.table"
PLAN_KEY = "pricing"

_NO_PRICES = Usage(input_tokens=0, output_tokens=0, total_tokens=0)
# The price that the payer of the running call has found, if it has one.
_agreed: ContextVar[Price | None] = ContextVar("amplifier_agreed_price", default=None)


class UnknownPriceError(ConfigurationError):
    """A model is not called, because dollars are limited and its price is not known."""

    def __init__(self, provider: str, model: str) -> None:
        name = f"{provider}/{model}"
        self.what = f"No price is known for {name}, so it is not called: its budget is in dollars."
        self.why = (
            "Neither your settings (`pricing`, or `prices` of hooks-budget) nor the price data "
            "have it."
        )
        self.fix = f"add to ~/.amplifier/settings.yaml, per million tokens: {_example(name)}"
        message = "\n".join((self.what, self.why, self.fix))
        super().__init__(message, provider=provider, model=model)


class PriceTable:
    """What models cost in one session.

    The first of these that has a price decides: `prices` of a budget, `pricing` of the mount plan
    (which is that of the settings), `pricing` of the provider's own configuration, the prices of a
    fleet, the price data. Entries are by `provider/model`, else by provider, as it is mounted.
    """

    def __init__(self, prices: Mapping[str, Pricing] | None = None) -> None:
        self._of_budget = dict(prices or {})
        self._of_plan: dict[str, Pricing] = {}
        self._of_providers: dict[str, Pricing] = {}
        self._of_fleet: dict[str, Pricing] = {}
        self._vendors: dict[str, str | None] = {}

    def take_plan(self, plan: Mapping[str, Any]) -> None:
        """Take the prices of a mount plan; one that is not valid is logged and not used."""
        told: Any = plan.get(PLAN_KEY)
        for name, value in (cast("dict[str, Any]", told) if isinstance(told, dict) else {}).items():
            try:
                self._of_plan[name] = Pricing.model_validate(value)
            except ValidationError:
                logger.warning("price in the plan not used name=%s", name, exc_info=True)

    def take_budget(self, prices: Mapping[str, Pricing]) -> None:
        """Take the prices of a budget's configuration."""
        self._of_budget |= prices

    def take_fleet(self, prices: Mapping[str, Pricing]) -> None:
        """Take the prices that the operators of the workers have set."""
        self._of_fleet |= prices

    def take_provider(self, name: str, vendor: str | None, pricing: Pricing | None) -> None:
        """Take the price that a provider was configured with, and its name in the price data."""
        self._vendors[name] = vendor
        if pricing is not None:
            self.take_pricing(name, pricing)

    def take_pricing(self, name: str, pricing: Pricing) -> None:
        """Take the price that a provider was configured with."""
        self._of_providers[name] = pricing

    def declared_by(self, provider: str) -> dict[str, Any] | None:
        """Return what a provider declared about its prices, as JSON data; None if nothing."""
        if provider not in self._vendors:
            return None
        pricing = self._of_providers.get(provider)
        return {
            "vendor": self._vendors[provider],
            "pricing": None if pricing is None else pricing.model_dump(mode="json"),
        }

    def take_declared(self, provider: str, declared: Mapping[str, Any]) -> None:
        """Take what `declared_by` returned, for a provider that is replayed and not loaded."""
        pricing = declared.get("pricing")
        if pricing is None:
            known = None
        else:
            known = Pricing.model_validate(pricing)
        self.take_provider(provider, declared.get("vendor"), known)

    def pricing_of(self, provider: str, model: str) -> Pricing | None:
        """Return the price that was set for a model; None leaves it to the price data."""
        for prices in (self._of_budget, self._of_plan, self._of_providers, self._of_fleet):
            pricing = prices.get(f"{provider}/{model}") or prices.get(provider)
            if pricing is not None:
                return pricing
        return None

    def vendor_of(self, provider: str, otherwise: str | None) -> str | None:
        """Return the name of a provider in the price data; `otherwise` if it did not say."""
        return self._vendors.get(provider, otherwise)

    def cost_of(self, provider: str, model: str, usage: Usage) -> Decimal | None:
        """Return what a call cost, None if it is unknown; the price data has to be loaded."""
        agreed = _agreed.get()
        if agreed is not None:
            try:
                return agreed(usage)
            except ValueError:
                return None
        pricing = self.pricing_of(provider, model)
        return cost_usd(self.vendor_of(provider, None), model, usage, pricing)


def price_table(coordinator: Any) -> PriceTable:
    """Return the table of a session, creating it on first use."""
    find = getattr(coordinator, "get_capability", None)
    known = None if find is None else find(CAPABILITY)
    if isinstance(known, PriceTable):
        return known
    table = PriceTable()
    plan: Any = getattr(coordinator, "config", None)
    if isinstance(plan, Mapping):
        table.take_plan(cast("Mapping[str, Any]", plan))
    if find is not None:
        coordinator.register_capability(CAPABILITY, table)
    return table


def own_table(provider: Any) -> PriceTable | None:
    """Return the table by which a provider prices its calls, if it is built on the kit."""
    table = getattr(getattr(provider, "calls", None), "prices", None)
    if isinstance(table, PriceTable):
        return table
    return None


def with_cost(response: ChatResponse, price: Price | None) -> ChatResponse:
    """Return the response with its cost, if its provider gave none and the price is known.

    `free` adds none: it means that nobody counts the cost, not that the cost is zero.
    """
    usage = response.usage
    if price is None or price is free or usage is None or usage.cost_usd is not None:
        return response
    try:
        priced = usage.model_copy(update={"cost_usd": price(usage)})
    except ValueError:
        return response
    return response.model_copy(update={"usage": priced})


async def find_price(
    tables: Iterable[PriceTable], provider: str, vendor: str | None, model: str
) -> Price | None:
    """Return the price of a model's calls; None if it is unknown.

    `vendor` is its name in the price data, unless the provider gave another to its table. A table
    after the first counts only where those before it, and the data, have no price.
    """
    in_order = list(tables)
    for table in in_order:
        vendor = table.vendor_of(provider, vendor)
    for table in in_order:
        pricing = table.pricing_of(provider, model)
        if pricing is None:
            await asyncio.to_thread(load_price_data)
        if cost_usd(vendor, model, _NO_PRICES, pricing) is not None:
            return partial(_known_cost, vendor, model, pricing)
    return None


async def listed_price(provider: Any, model: str) -> Price | None:
    """Return the price that a provider lists for its model, in US dollars; None without one."""
    try:
        models: list[ModelInfo] = await provider.list_models()
    except Exception:
        logger.exception("models not listed, so their prices are not known")
        return None
    told = next((each.pricing for each in models if each.id == model and each.pricing), None)
    if told is None or told.currency != "USD":
        return None
    pricing = Pricing(
        input=Decimal(str(told.input_per_million)),
        output=Decimal(str(told.output_per_million)),
        cache_read=_decimal(told.cache_read_per_million),
        cache_write=_decimal(told.cache_write_per_million),
    )
    return partial(_known_cost, None, model, pricing)


@contextmanager
def priced_at(price: Price | None) -> Generator[None]:
    """Price the call inside as its payer does, so that the same price is charged and shown."""
    token = _agreed.set(None if price is free else price)
    try:
        yield
    finally:
        _agreed.reset(token)


def _known_cost(vendor: str | None, model: str, pricing: Pricing | None, usage: Usage) -> Decimal:
    cost = cost_usd(vendor, model, usage, pricing)
    if cost is None:
        raise ValueError(f"no price for {vendor}/{model} with usage {usage}")
    return cost


def _example(name: str) -> str:
    """Return a line of settings that gives a model a price."""
    return f"pricing: {{ {json.dumps(name)}: {{ input: 1.00, output: 2.00 }} }}"


def _decimal(value: float | None) -> Decimal | None:
    if value is None:
        return None
    # By its text: `Decimal(0.1)` would have the binary error of the float.
    return Decimal(str(value))
