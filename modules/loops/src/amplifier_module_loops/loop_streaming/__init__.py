"""loop-streaming: the plain loop with streamed answers, and steering while it runs."""

from __future__ import annotations

from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.calls.block_stream import STREAM_EVENTS
from amplifier_kit.turn_events import TURN_EVENTS
from amplifier_module_loops.loop_streaming.config import DEFAULTS, StreamingLoopConfig
from amplifier_module_loops.loop_streaming.loop import StreamingLoop

__amplifier_module_type__ = "orchestrator"


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount the loop and offer `session.steer`. Config: see `StreamingLoopConfig`."""
    loop = StreamingLoop(StreamingLoopConfig.model_validate(config) if config else DEFAULTS)
    coordinator.register_contributor("observability.events", loop.name, _events)
    coordinator.register_capability("session.steer", loop.steer)
    await coordinator.mount("orchestrator", loop)


def _events() -> list[str]:
    return [*TURN_EVENTS, *STREAM_EVENTS]
