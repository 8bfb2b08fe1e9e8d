"""The configuration of tool-todo; its README says what each key means."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class TodoConfig(BaseModel):
    """Whether the model is reminded of its list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    remind_every_steps: int | None = Field(default=None, gt=0)
