"""The settings of loop-streaming in the mount plan."""

from __future__ import annotations

from amplifier_module_loops.limits import TurnSettings


class StreamingLoopConfig(TurnSettings):
    """The settings of one loop: those of every turn."""


# Settings are frozen, so that sessions without their own share one object.
DEFAULTS = StreamingLoopConfig()
