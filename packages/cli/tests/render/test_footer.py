"""The line at the bottom."""

from __future__ import annotations

from decimal import Decimal

import pytest

from amplifier_cli.render.footer import Meter, footer

FULL = Meter(
    state="ready",
    hint="/help",
    model="some-model",
    session="0123456789",
    tokens=64_000,
    window=128_000,
    cost=Decimal("0.5"),
    budget=Decimal("0.55"),
    queued=2,
)


def text_of(meter: Meter, width: int) -> str:
    return "".join(text for _, text in footer(meter, width))


@pytest.mark.parametrize("width", [10, 20, 30, 40, 60, 80, 100])
def test_it_never_needs_a_second_line_and_always_tells_the_state(width: int) -> None:
    text = text_of(FULL, width)
    assert text.startswith("ready")
    assert len(text) <= max(width, len("ready · 2 queued"))


def test_with_room_it_tells_everything() -> None:
    text = text_of(FULL, 100)
    assert text.startswith(
        "ready · 2 queued · some-model · ▰▰▱▱▱ · 64k of 128k 50% · $0.50 of $0.55 · 01234567"
    )
    assert text.endswith("/help")


def test_what_comes_near_its_limit_stands_out() -> None:
    styles = {text: style for style, text in footer(FULL, 100)}
    assert styles["$0.50 of $0.55"] == "class:footer.full"
    assert styles["64k of 128k 50%"] == ""


@pytest.mark.parametrize(
    ("cost", "unpriced", "budget", "shown"),
    [
        (None, 0, None, ""),
        (None, 2, None, "cost unknown"),
        (Decimal("0.5"), 1, None, "at least $0.50"),
        (Decimal(0), 0, None, "free"),
        (None, 0, Decimal(2), "$0.00 of $2.00"),
        (None, 1, Decimal(2), "cost unknown, limit $2.00"),
    ],
)
def test_only_a_known_cost_is_shown_as_one(
    cost: Decimal | None, unpriced: int, budget: Decimal | None, shown: str
) -> None:
    meter = Meter(state="ready", cost=cost, unpriced_calls=unpriced, budget=budget)

    assert text_of(meter, 80) == " · ".join(filter(None, ("ready", shown)))
