"""The loop: the common turn with streaming and steering."""

from __future__ import annotations

from amplifier_module_loops.announcer import Inbox
from amplifier_module_loops.loop_streaming.config import DEFAULTS, StreamingLoopConfig
from amplifier_module_loops.loop_streaming.streaming import ask_streaming
from amplifier_module_loops.turn import TurnLoop


class StreamingLoop(TurnLoop):
    """Runs turns one step at a time, and reads steering texts of the user in between."""

    def __init__(self, config: StreamingLoopConfig = DEFAULTS) -> None:
        inbox = Inbox()
        super().__init__("loop-streaming", config, inbox=inbox, ask_model=ask_streaming)
        self.steer = inbox.add
