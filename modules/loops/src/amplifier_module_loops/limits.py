"""The limits of a turn, and the ways in which it ends."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

from amplifier_kit.calls.budget_notices import BUDGET

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class TurnSettings(BaseModel):
    """What a loop can be told in the mount plan; unknown keys are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_iterations: int = Field(
        default=50, ge=-1, description="Model calls per turn before the last one; -1: no limit."
    )
    turn_timeout_seconds: Seconds | None = Field(
        default=1800.0, description="Time for a turn before its last model call; null: no limit."
    )
    tool_timeout_seconds: Seconds | None = Field(
        default=600.0, description="Time for a tool that has no deadline of its own; null: none."
    )
    tool_timeouts: dict[str, Seconds] = Field(
        default_factory=dict, description="Time for single tools, by name; wins over their own."
    )
    parallel_calls: int = Field(
        default=8, ge=1, description="Tool calls of a step that run at the same time."
    )
    max_calls: int = Field(
        default=128, ge=1, description="Tool calls of one answer that are accepted."
    )
    heartbeat_seconds: Seconds = Field(
        default=5.0, description="How often a running tool is announced."
    )
    stuck_after: int = Field(
        default=3, ge=0, description="Equal rounds of calls before the model is warned; 0: never."
    )
    output_schema: dict[str, Any] | None = Field(
        default=None, description="JSON Schema of the answer; null: plain text."
    )
    default_provider: str | None = Field(
        default=None, description="Provider to use; else the one of the lowest priority number."
    )
    extended_thinking: bool = Field(
        default=False, description="Ask the provider for extended thinking."
    )

    @field_validator("stuck_after")
    @classmethod
    def _more_than_once(cls, value: int) -> int:
        if value == 1:
            raise ValueError("stuck_after must be 0 or at least 2: every call is made once")
        return value


# stop reason -> (status in execution:end, status in orchestrator:complete)
STATUS = {
    "completed": ("completed", "success"),
    "limit": ("completed", "incomplete"),
    "deadline": ("completed", "incomplete"),
    "stuck": ("completed", "incomplete"),
    "denied": ("completed", "incomplete"),
    "truncated": ("completed", "incomplete"),
    "filtered": ("completed", "incomplete"),
    BUDGET: ("completed", "incomplete"),
    "invalid_output": ("completed", "incomplete"),
    "cancelled": ("cancelled", "cancelled"),
    "error": ("error", "incomplete"),
}


class Ending(NamedTuple):
    """Why the next model call, which has no tools, is the last one of the turn."""

    stop_reason: str
    cause: str

    @property
    def notice(self) -> str:
        """The text for the model."""
        return (
            f"In this turn {self.cause}. Answer now with what you have, without calling tools, and "
            "say what is still open."
        )

    @property
    def refusal(self) -> str:
        """The result of a tool call that the model makes nevertheless."""
        return f"Not run: {self.cause}."

    @property
    def line(self) -> str:
        """The message for the user."""
        return f"The turn ends: {self.cause}. The model answers with what it has."


LIMIT = Ending("limit", "the step limit is reached")
DEADLINE = Ending("deadline", "the time is used up")
STUCK = Ending("stuck", "the same calls were made again and again")

# The finish reasons of an incomplete answer: the vendors', and that of a budget.
_CUT_SHORT = {
    BUDGET: BUDGET,
    "length": "truncated",
    "max_tokens": "truncated",
    "max_output_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "content_filter": "filtered",
    "refusal": "filtered",
    "safety": "filtered",
    "recitation": "filtered",
    "prohibited_content": "filtered",
    "blocklist": "filtered",
}


def stop_reason_for(finish_reason: str | None) -> str:
    """Return the stop reason of a turn for the finish reason of its last answer."""
    if not finish_reason:
        return "completed"
    return _CUT_SHORT.get(finish_reason.lower(), "completed")
