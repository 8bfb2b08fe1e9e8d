"""The estimate learns from the tokens that providers count."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_module_context_simple import SimpleContextManager, mount
from amplifier_module_context_simple.calibration import Calibration


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


async def test_a_mounted_memory_fits_more_tightly_when_the_model_counts_more_tokens() -> None:
    coordinator = MockCoordinator()
    await mount(coordinator, {"max_tokens": 10_000, "compact_threshold": 1.0})
    context: SimpleContextManager = coordinator.get("context")
    await context.set_messages([{"role": "user", "content": "x" * 380} for _ in range(90)])
    assert len(await context.get_messages_for_request()) == 90

    await coordinator.hooks.emit("llm:response", {"usage": {"input_tokens": 17_900}})
    view = await context.get_messages_for_request()

    assert len(view) * 200 <= 10_000
    assert await context.should_compact() is True


async def test_a_compacted_view_is_made_anew_when_the_estimate_has_learned() -> None:
    context = SimpleContextManager(max_tokens=10_000)
    await context.set_messages([{"role": "user", "content": "x" * 380} for _ in range(200)])
    before = await context.get_messages_for_request()

    await context.calibration("llm:response", {"usage": {"input_tokens": 90_000}})
    after = await context.get_messages_for_request()

    assert len(after) < len(before)


async def test_the_first_estimate_is_configurable() -> None:
    messages = [{"role": "user", "content": "x" * 380} for _ in range(10)]
    context = SimpleContextManager(max_tokens=1_500, compact_threshold=1.0, chars_per_token=2.0)
    await context.set_messages(messages)

    assert len(await context.get_messages_for_request()) < 10
