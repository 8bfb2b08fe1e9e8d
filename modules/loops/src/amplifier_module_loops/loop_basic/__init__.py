"""loop-basic: calls the model and runs the tools it asks for, until it answers."""

from __future__ import annotations

from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.turn_events import TURN_EVENTS
from amplifier_module_loops.loop_basic.config import DEFAULTS, BasicLoopConfig
from amplifier_module_loops.loop_basic.loop import BasicLoop

__amplifier_module_type__ = "orchestrator"


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount the loop. Config: see `BasicLoopConfig`. Nothing to clean up."""
    loop = BasicLoop(BasicLoopConfig.model_validate(config) if config else DEFAULTS)
    coordinator.register_contributor("observability.events", loop.name, TURN_EVENTS.copy)
    await coordinator.mount("orchestrator", loop)
