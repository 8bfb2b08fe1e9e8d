"""Tests of what the loop can be told, and of mounting it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core.testing import MockCoordinator
from amplifier_module_loops.loop_basic import mount
from amplifier_module_loops.loop_basic.loop import BasicLoop


async def test_it_mounts_itself_as_the_orchestrator_and_tells_its_events() -> None:
    coordinator = MockCoordinator()

    await mount(coordinator)

    assert isinstance(coordinator.get("orchestrator"), BasicLoop)
    (events,) = await coordinator.collect_contributions("observability.events")
    assert "tool:heartbeat" in events


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"max_iteration": 3}, "max_iteration"),
        ({"max_iterations": -2}, "max_iterations"),
        ({"max_iterations": "many"}, "max_iterations"),
        ({"stuck_after": 1}, "stuck_after"),
        ({"turn_timeout_seconds": 0}, "turn_timeout_seconds"),
        ({"tool_timeouts": {"t": float("inf")}}, "tool_timeouts"),
    ],
)
async def test_a_key_or_value_it_does_not_know_stops_the_mount(
    config: dict[str, Any], named: str
) -> None:
    coordinator = MockCoordinator()

    with pytest.raises(ValidationError, match=named):
        await mount(coordinator, config)

    assert coordinator.get("orchestrator") is None
