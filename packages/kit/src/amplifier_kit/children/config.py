"""How many children a session may have, and how long each may take."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ChildrenConfig(BaseModel, extra="forbid", frozen=True, defer_build=True):
    """How many children there may be, and how long each of them may take."""

    max_depth: int = Field(default=3, ge=0, description="Generations below the root.")
    max_children: int = Field(default=8, ge=1, description="Of one session, at the same time.")
    max_total: int = Field(default=64, ge=1, description="Of the whole tree, in all.")
    timeout_seconds: _Seconds = Field(default=1800.0, description="The most a child may take.")
    grace_seconds: _Seconds = Field(default=1.0, description="For each way of asking it to stop.")
    heartbeat_seconds: _Seconds = Field(default=5.0, description="Between signs of life.")
    notify: bool = Field(default=True, description="Tell the model that a task has ended.")
    hand_down: list[str] = ["session.working_dir", "project.trusted", "files.checkpoint_store"]

    def narrowed(self, above: ChildrenConfig) -> ChildrenConfig:
        """Return a copy with limits no wider than those of `above`."""
        depth = min(self.max_depth, above.max_depth)
        children = min(self.max_children, above.max_children)
        return self.model_copy(update={"max_depth": depth, "max_children": children})
