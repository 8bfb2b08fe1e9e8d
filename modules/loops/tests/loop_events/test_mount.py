"""Tests of mounting the loop, and of the names it announces."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core.testing import MockCoordinator
from amplifier_module_loops.loop_events import mount
from amplifier_module_loops.loop_events.loop import EventDrivenLoop


async def test_it_mounts_itself_and_contributes_the_names_of_its_events() -> None:
    coordinator = MockCoordinator()

    await mount(coordinator)

    assert isinstance(coordinator.get("orchestrator"), EventDrivenLoop)
    (events,) = await coordinator.collect_contributions("observability.events")
    assert {"tool:selecting", "tool:selected", "tool:heartbeat"} <= {*events}


@pytest.mark.parametrize(
    ("config", "named"), [({"scheduler": "x"}, "scheduler"), ({"stuck_after": 1}, "stuck_after")]
)
async def test_a_key_or_value_it_does_not_know_stops_the_mount(
    config: dict[str, Any], named: str
) -> None:
    coordinator = MockCoordinator()

    with pytest.raises(ValidationError, match=named):
        await mount(coordinator, config)

    assert coordinator.get("orchestrator") is None
