"""What a call costs: exact, and None where nobody knows."""

from __future__ import annotations

import logging
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from amplifier_core.message_models import Usage
from amplifier_kit.calls.prices import PriceTable, cost_usd, find_price, load_price_data
from amplifier_kit.calls.settings import Pricing, ProviderSettings

PRICING = Pricing(input=Decimal(3), output=Decimal(15), cache_read=Decimal("0.3"))


def usage(total: int, output: int, read: int | None = None, written: int | None = None) -> Usage:
    return Usage(
        input_tokens=total, output_tokens=output, total_tokens=total + output,
        cache_read_tokens=read, cache_write_tokens=written,
    )  # fmt: skip


def test_a_price_of_ones_own_is_exact() -> None:
    cost = cost_usd(None, "any", usage(1_000, 10, read=400, written=100), PRICING)

    assert cost == Decimal("0.00207")  # 500 and 100 written at 3, 400 read at 0.3, 10 out at 15


def test_a_price_of_ones_own_wins_over_the_price_data() -> None:
    free = Pricing(input=Decimal(0), output=Decimal(0))

    assert cost_usd("openai", "gpt-4.1-mini", usage(1_000, 10), free) == 0


def test_a_known_model_has_its_price() -> None:
    full = cost_usd("openai", "gpt-4.1-mini", usage(1_000_000, 0))
    cached = cost_usd("openai", "gpt-4.1-mini", usage(1_000_000, 0, read=900_000))

    assert isinstance(full, Decimal)
    assert isinstance(cached, Decimal)
    assert full > cached > 0


@pytest.mark.parametrize(
    ("vendor", "model"), [(None, "gpt-4.1-mini"), ("openai", "made-up-1"), ("nobody", "x")]
)
def test_an_unknown_price_is_none(vendor: str | None, model: str) -> None:
    assert cost_usd(vendor, model, usage(1_000, 10)) is None


def test_counts_that_contradict_each_other_have_no_price(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert cost_usd("openai", "gpt-4.1-mini", usage(10, 0, read=1_000)) is None

    assert "gpt-4.1-mini" in caplog.text


_COUNTS = st.integers(0, 10**9)


@given(_COUNTS, _COUNTS, st.none() | _COUNTS, st.none() | _COUNTS)
def test_no_count_makes_a_call_cheaper_than_nothing(
    total: int, output: int, read: int | None, written: int | None
) -> None:
    cost = cost_usd(None, "any", usage(total, output, read, written), PRICING)

    assert cost is not None
    assert cost >= 0


@given(_COUNTS, _COUNTS)
def test_a_cache_that_reads_everything_costs_its_own_price(total: int, output: int) -> None:
    cost = cost_usd(None, "any", usage(total, output, read=total), PRICING)

    assert cost == (total * Decimal("0.3") + output * 15) / 1_000_000


def test_the_price_data_is_loaded_only_when_asked_for() -> None:
    code = (
        "import sys, amplifier_kit.calls.mounting\n"
        "assert 'genai_prices' not in sys.modules\n"
        "from amplifier_kit.calls.prices import load_price_data\n"
        "load_price_data()\n"
        "assert 'genai_prices' in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
    load_price_data()


async def test_a_price_that_was_told_of_the_model_wins_over_that_of_the_provider_and_the_data() -> (
    None
):
    told = {"p": PRICING, "p/small": Pricing(input=Decimal(1), output=Decimal(1))}

    small = await find_price([PriceTable(told)], "p", "openai", "small")
    other = await find_price([PriceTable(told)], "p", "openai", "gpt-4.1-mini")
    known = await find_price([PriceTable(told)], "q", "openai", "gpt-4.1-mini")

    assert small is not None
    assert other is not None
    assert known is not None
    million = usage(1_000_000, 0)
    assert (small(million), other(million)) == (1, 3)
    assert known(million) == cost_usd("openai", "gpt-4.1-mini", million)


async def test_a_later_table_tells_only_what_those_before_it_and_the_data_do_not() -> None:
    cheap = Pricing(input=Decimal(0), output=Decimal(0))
    above = PriceTable({"p": PRICING})
    below = PriceTable({"p/small": cheap, "q": cheap, "r": cheap})
    million = usage(1_000_000, 0)

    told = await find_price([above, below], "p", "openai", "small")
    known = await find_price([above, below], "q", "openai", "gpt-4.1-mini")
    only_below = await find_price([above, below], "r", "openai", "made-up-1")

    assert told is not None
    assert known is not None
    assert only_below is not None
    assert told(million) == 3
    assert known(million) == cost_usd("openai", "gpt-4.1-mini", million)
    assert only_below(million) == 0


async def test_a_price_that_nobody_knows_is_not_found_and_contradictory_counts_have_none() -> None:
    known = await find_price([PriceTable()], "p", "openai", "gpt-4.1-mini")

    assert await find_price([PriceTable()], "p", "openai", "made-up-1") is None
    assert known is not None
    with pytest.raises(ValueError, match="no price for openai/gpt-4.1-mini"):
        known(usage(10, 0, read=1_000))


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{"no_such": 1}, {"max_retries": -1}, {"timeout_seconds": 0}, {"pricing": {"input": 1}},
     {"pricing": {"input": -1, "output": 1}}],
    ids=lambda settings: str(settings),
)  # fmt: skip
def test_a_setting_that_makes_no_sense_is_refused_by_name(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(settings))):
        ProviderSettings.model_validate(settings)


def test_a_key_is_not_shown() -> None:
    settings = ProviderSettings.model_validate({"api_key": "sk-secret"})

    assert "sk-secret" not in repr(settings)


def test_the_retries_are_as_configured() -> None:
    config = ProviderSettings(
        max_retries=5, min_retry_delay_seconds=0.5, max_retry_delay_seconds=9
    ).retry_config()

    assert (config.max_retries, config.initial_delay, config.max_delay) == (5, 0.5, 9)
