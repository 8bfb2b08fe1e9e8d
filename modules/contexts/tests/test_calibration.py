"""The estimate learns from the tokens that providers count."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_module_contexts.sizes import Calibration


async def learn(estimate: int, counted: Any, *, times: int = 1) -> float:
    """Send `estimate` tokens, have the provider count, and return the factor."""
    calibration = Calibration(4.0)
    for _ in range(times):
        calibration.sent = estimate * 4
        await calibration("llm:response", {"usage": {"input_tokens": counted}})
    return calibration.factor


@pytest.mark.parametrize(
    ("estimate", "counted", "factor"),
    [
        (10_000, 10_000, 1.0),
        (10_000, 13_000, 1.3),
        (10_000, 13_001, 1.4),
        (10_000, 7_000, 0.7),
        (10_000, 5_000, 0.5),
        (10_000, 4_999, 1.0),
        (10_000, 90_000, 2.0),
        (999, 1_998, 1.0),
        (10_000, None, 1.0),
        (10_000, "13000", 1.0),
    ],
)
async def test_the_factor_follows_the_counts_within_bounds_and_in_steps(
    estimate: int, counted: Any, factor: float
) -> None:
    assert await learn(estimate, counted) == factor
    assert await learn(estimate, counted, times=3) == factor


async def test_one_request_teaches_once() -> None:
    calibration = Calibration(4.0)
    calibration.sent = 40_000

    await calibration("llm:response", {"usage": {"input_tokens": 12_000}})
    await calibration("provider:response", {"usage": {"input_tokens": 20_000}})

    assert calibration.factor == 1.2


@pytest.mark.parametrize("data", [{}, {"usage": None}, {"usage": 7}, {"error": {"type": "E"}}])
async def test_a_failed_call_teaches_nothing_and_the_retry_does(data: dict[str, Any]) -> None:
    calibration = Calibration(4.0)
    calibration.sent = 40_000

    await calibration("llm:response", data)
    assert calibration.factor == 1.0
    await calibration("llm:response", {"usage": {"input_tokens": 12_000}})

    assert calibration.factor == 1.2


def test_an_exact_count_raises_the_factor_as_far_as_it_must() -> None:
    calibration = Calibration(4.0)

    calibration.raise_to(1_000, 1_000, least=1.0)
    assert calibration.factor == 4.0
    assert calibration.tokens(1_000) == 1_000

    calibration.raise_to(1_000, 1_001, least=1.25)
    assert calibration.factor == 5.0


async def test_usage_does_not_lower_what_an_exact_count_has_raised() -> None:
    calibration = Calibration(4.0)
    calibration.raise_to(1_000, 1_000, least=1.0)

    for factor in (4.0, 1.3):
        calibration.sent = 40_000
        await calibration("llm:response", {"usage": {"input_tokens": 13_000}})
        assert calibration.factor == factor
        calibration.forget_counts()
