"""What is said of a charge: nothing of one that fits, and who, how much and why of all others."""

from __future__ import annotations

from decimal import Decimal

import pytest

from amplifier_kit.calls.budget_notices import notice_of_charge, notice_of_unpriced
from amplifier_kit.calls.call_costs import Amount

HELD = Amount(Decimal("0.5"), Decimal(100))


def test_nothing_is_said_of_a_charge_up_to_the_worst_case() -> None:
    assert notice_of_charge("p", HELD, HELD) is None
    assert notice_of_charge("p", HELD, Amount()) is None


@pytest.mark.parametrize(
    "charged", [Amount(Decimal("0.6"), Decimal(1)), Amount(Decimal(0), Decimal(101))]
)
def test_a_charge_beyond_the_worst_case_is_told_with_both_amounts(charged: Amount) -> None:
    news = notice_of_charge("p", HELD, charged)

    assert news is not None
    assert news.event == "budget:overrun"
    assert news.facts == {
        "provider": "p",
        "held": {"usd": "0.5", "tokens": "100"},
        "charged": {"usd": str(charged.usd), "tokens": str(charged.tokens)},
    }


def test_a_report_that_cannot_be_true_is_told_with_what_is_charged_instead() -> None:
    news = notice_of_charge("p", HELD, None)

    assert news is not None
    assert news.event == "budget:usage_doubted"
    assert news.facts == {"provider": "p", "held": {"usd": "0.5", "tokens": "100"}}
    assert "`p` reports no usage" in news.line


@pytest.mark.parametrize(
    ("is_refused", "words"), [(True, "not called"), (False, "its calls count as free")]
)
def test_a_model_without_a_price_is_told_with_what_follows(is_refused: bool, words: str) -> None:
    news = notice_of_unpriced("p", "m", is_refused=is_refused)

    assert news.event == "budget:price_unknown"
    assert news.facts == {"provider": "p", "model": "m", "refused": is_refused}
    assert "p/m" in news.line
    assert words in news.line
