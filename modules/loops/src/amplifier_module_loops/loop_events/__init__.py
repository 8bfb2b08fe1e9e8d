"""loop-events: the plain loop, in which hooks choose the tool for each call of the model."""

from __future__ import annotations

from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.turn_events import TURN_EVENTS
from amplifier_module_loops.loop_events.config import DEFAULTS, EventLoopConfig
from amplifier_module_loops.loop_events.loop import EventDrivenLoop
from amplifier_module_loops.loop_events.selection import SELECTION_EVENTS

__amplifier_module_type__ = "orchestrator"


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount the loop. Config: see `EventLoopConfig`. Nothing to clean up."""
    loop = EventDrivenLoop(EventLoopConfig.model_validate(config) if config else DEFAULTS)
    coordinator.register_contributor("observability.events", loop.name, _events)
    await coordinator.mount("orchestrator", loop)


def _events() -> list[str]:
    return [*TURN_EVENTS, *SELECTION_EVENTS]
