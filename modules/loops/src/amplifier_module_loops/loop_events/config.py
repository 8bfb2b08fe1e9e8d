"""The settings of loop-events in the mount plan."""

from __future__ import annotations

from amplifier_module_loops.limits import TurnSettings


class EventLoopConfig(TurnSettings):
    """The settings of one loop: those of every turn."""


# Settings are frozen, so that sessions without their own share one object.
DEFAULTS = EventLoopConfig()
