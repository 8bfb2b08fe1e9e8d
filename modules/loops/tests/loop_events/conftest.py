"""The event-driven loop, mounted as a session would, with a turn around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_module_loops.loop_events import mount
from amplifier_module_loops.loop_events.selection import SELECTION_EVENTS
from contract.turns import Turn

TurnMaker = Callable[..., Awaitable[Turn]]


@pytest.fixture
def turn_of() -> TurnMaker:
    """Give a function that makes a turn of scripted answers, with all its events heard."""

    async def make(*answers: Any, tools: Any = (), **config: Any) -> Turn:
        coordinator = MockCoordinator()
        await mount(coordinator, config)
        turn = Turn(coordinator.get("orchestrator"), *answers, tools=tools)
        for event in SELECTION_EVENTS:
            turn.hooks.register(event, turn.heard, 100)
        return turn

    return make
