"""Tests of mounting the loop, and of what it offers then."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core.testing import MockCoordinator
from amplifier_module_loops.loop_streaming import mount
from amplifier_module_loops.loop_streaming.loop import StreamingLoop


async def test_it_mounts_itself_and_offers_steering_and_the_names_of_its_events() -> None:
    coordinator = MockCoordinator()

    await mount(coordinator)

    loop = coordinator.get("orchestrator")
    assert isinstance(loop, StreamingLoop)
    assert coordinator.get_capability("session.steer") == loop.steer
    (events,) = await coordinator.collect_contributions("observability.events")
    assert {"orchestrator:steering_injected", "llm:stream_block_delta", "tool:heartbeat"} <= {
        *events
    }


@pytest.mark.parametrize(
    ("config", "named"), [({"speed": 3}, "speed"), ({"heartbeat_seconds": 0}, "heartbeat_seconds")]
)
async def test_a_key_or_value_it_does_not_know_stops_the_mount(
    config: dict[str, Any], named: str
) -> None:
    coordinator = MockCoordinator()

    with pytest.raises(ValidationError, match=named):
        await mount(coordinator, config)

    assert coordinator.get("orchestrator") is None
