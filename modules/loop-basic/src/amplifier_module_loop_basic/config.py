"""What loop-basic can be told in the mount plan."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class LoopConfig(BaseModel):
    """The settings of one loop; unknown keys are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_iterations: int = Field(
        default=50, ge=-1, description="Model calls per turn before the last one; -1: no limit."
    )
    default_provider: str | None = Field(
        default=None, description="Provider to use; else the one of the lowest priority number."
    )
    extended_thinking: bool = Field(
        default=False, description="Ask the provider for extended thinking."
    )


# Settings never change, so the sessions that set nothing share them.
DEFAULTS = LoopConfig()
