"""What loop-basic can be told in the mount plan."""

from __future__ import annotations

from amplifier_module_loops.limits import TurnSettings


class LoopConfig(TurnSettings):
    """The settings of one loop: those of every turn."""


# Settings never change, so the sessions that set nothing share them.
DEFAULTS = LoopConfig()
