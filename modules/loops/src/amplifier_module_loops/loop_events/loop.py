"""The loop: the common turn, with the tool of each call selected by hooks first."""

from __future__ import annotations

from amplifier_module_loops.loop_events.config import DEFAULTS, EventLoopConfig
from amplifier_module_loops.loop_events.selection import select_tool
from amplifier_module_loops.turn import TurnLoop


class EventDrivenLoop(TurnLoop):
    """Runs turns one step at a time: a model call, then the tools that hooks select for it."""

    def __init__(self, config: EventLoopConfig = DEFAULTS) -> None:
        super().__init__("loop-events", config, select_tool=select_tool)
