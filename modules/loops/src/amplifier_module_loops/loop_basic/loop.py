"""The loop: the common turn, without additions."""

from __future__ import annotations

from amplifier_module_loops.loop_basic.config import DEFAULTS, BasicLoopConfig
from amplifier_module_loops.turn import TurnLoop


class BasicLoop(TurnLoop):
    """Runs turns one step at a time: a model call, then the tools it asked for."""

    def __init__(self, config: BasicLoopConfig = DEFAULTS) -> None:
        super().__init__("loop-basic", config)
