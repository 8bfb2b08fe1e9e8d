"""The price table of a session: whose price counts, and that there is one for all."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from amplifier_core.message_models import ChatResponse, TextBlock, Usage
from amplifier_core.models import ModelInfo
from amplifier_core.models import Pricing as ListedPricing
from amplifier_core.testing import MockCoordinator
from amplifier_kit.calls.prices import (
    PriceTable,
    UnknownPriceError,
    find_price,
    listed_price,
    price_table,
    priced_at,
    with_cost,
)
from amplifier_kit.calls.settings import FREE, Pricing

MILLION = Usage(input_tokens=1_000_000, output_tokens=0, total_tokens=1_000_000)


def costing(dollars: int) -> Pricing:
    return Pricing(input=Decimal(dollars), output=Decimal(dollars))


def test_the_budgets_price_comes_before_the_plans_the_providers_and_the_fleets() -> None:
    table = PriceTable()
    costs: list[Decimal | None] = [table.cost_of("p", "m", MILLION)]
    table.take_fleet({"p": costing(4)})
    costs.append(table.cost_of("p", "m", MILLION))
    table.take_provider("p", None, costing(3))
    costs.append(table.cost_of("p", "m", MILLION))
    table.take_plan({"pricing": {"p": {"input": 2, "output": 2}}})
    costs.append(table.cost_of("p", "m", MILLION))
    table.take_budget({"p/m": costing(1)})
    costs.append(table.cost_of("p", "m", MILLION))

    assert costs == [None, 4, 3, 2, 1]


async def test_a_provider_says_under_which_name_the_price_data_has_it() -> None:
    table = PriceTable()
    table.take_provider("mine", "openai", None)

    assert await find_price([table], "mine", "mine", "gpt-4.1-mini") is not None
    assert await find_price([PriceTable()], "mine", "mine", "gpt-4.1-mini") is None


def test_a_session_has_one_table_with_the_prices_of_its_plan() -> None:
    coordinator = MockCoordinator()
    coordinator.config["pricing"] = {"p": {"input": 2, "output": 2}, "q": "cheap"}

    table = price_table(coordinator)

    assert price_table(coordinator) is table
    assert table.cost_of("p", "m", MILLION) == 2
    assert table.cost_of("q", "m", MILLION) is None


def test_who_pays_for_a_call_has_found_its_price() -> None:
    table = PriceTable({"p": costing(1)})

    with priced_at(lambda usage: Decimal(7)):
        assert table.cost_of("p", "m", MILLION) == 7
    assert table.cost_of("p", "m", MILLION) == 1


@pytest.mark.parametrize(("reported", "shown"), [(None, 5), (Decimal(3), 3)])
def test_a_cost_is_filled_in_only_where_the_provider_gave_none(
    reported: Decimal | None, shown: int
) -> None:
    usage = MILLION.model_copy(update={"cost_usd": reported})
    response = ChatResponse(content=[TextBlock(text="ok")], usage=usage)

    priced = with_cost(response, lambda usage: Decimal(5))

    assert priced.usage is not None
    assert priced.usage.cost_usd == shown
    assert with_cost(response, None) is response


class Listing:
    """A provider that lists one model with a price."""

    def __init__(self, currency: str = "USD") -> None:
        self.currency = currency

    async def list_models(self) -> list[ModelInfo]:
        told = ListedPricing(input_per_million=2.5, output_per_million=10, currency=self.currency)
        model: dict[str, Any] = {"id": "m", "display_name": "M", "context_window": 1}
        return [ModelInfo(**model, max_output_tokens=1, pricing=told)]


async def test_the_price_that_a_provider_lists_counts_in_dollars_alone() -> None:
    price = await listed_price(Listing(), "m")

    assert price is not None
    assert price(MILLION) == Decimal("2.5")
    assert await listed_price(Listing(), "other") is None
    assert await listed_price(Listing("EUR"), "m") is None


def test_a_refusal_has_three_lines_and_the_last_is_an_example() -> None:
    error = UnknownPriceError("p", "m")

    assert str(error).count("\n") == 2
    assert error.fix.endswith('pricing: { "p/m": { input: 1.00, output: 2.00 } }')


def test_only_a_price_of_zero_is_free() -> None:
    assert PriceTable({"p": FREE}).cost_of("p", "m", MILLION) == 0
    assert PriceTable().cost_of("p", "m", MILLION) is None
