"""The configuration of hooks-redaction; its README says what each key means."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class RedactionConfig(BaseModel):
    """What is listened to, and what happens to tool calls that carry a secret."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secrets_in_tool_input: Literal["refuse", "pass"] = Field(
        default="refuse", description="What to do with a tool call that carries a secret."
    )
    events: list[str] = Field(default=[], description="Further events, announced by nobody's list.")
