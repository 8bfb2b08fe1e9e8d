"""The loop: a turn as every loop takes it, with the tool of each call selected first."""

from __future__ import annotations

from amplifier_module_loops.loop_events.config import DEFAULTS, LoopConfig
from amplifier_module_loops.loop_events.selection import select_tool
from amplifier_module_loops.turn import TurnLoop


class EventDrivenLoop(TurnLoop):
    """Runs turns one step at a time: a model call, then the tools that hooks let its calls get."""

    def __init__(self, config: LoopConfig = DEFAULTS) -> None:
        super().__init__("loop-events", config, select_tool=select_tool)
