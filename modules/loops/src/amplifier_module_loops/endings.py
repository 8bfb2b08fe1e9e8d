"""The ways a turn can end, and what is said and announced about each."""

from __future__ import annotations

from typing import NamedTuple

# stop reason -> (status in execution:end, status in orchestrator:complete)
STATUS = {
    "completed": ("completed", "success"),
    "limit": ("completed", "incomplete"),
    "deadline": ("completed", "incomplete"),
    "stuck": ("completed", "incomplete"),
    "denied": ("completed", "incomplete"),
    "truncated": ("completed", "incomplete"),
    "filtered": ("completed", "incomplete"),
    "invalid_output": ("completed", "incomplete"),
    "cancelled": ("cancelled", "cancelled"),
    "error": ("error", "incomplete"),
}


class Ending(NamedTuple):
    """Why the next model call, which has no tools, is the last one."""

    stop_reason: str
    cause: str

    @property
    def notice(self) -> str:
        """What the model reads."""
        return (
            f"In this turn {self.cause}. Answer now with what you have, without calling tools, and "
            "say what is still open."
        )

    @property
    def refusal(self) -> str:
        """What answers a call that the model makes all the same."""
        return f"Not run: {self.cause}."

    @property
    def line(self) -> str:
        """What the person reads."""
        return f"The turn ends: {self.cause}. The model answers with what it has."


LIMIT = Ending("limit", "the step limit is reached")
DEADLINE = Ending("deadline", "the time is used up")
STUCK = Ending("stuck", "the same calls were made again and again")

# What vendors call an answer that did not come to its end.
_CUT_SHORT = {
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
    """Return the stop reason of a turn whose last answer ended for this reason."""
    if not finish_reason:
        return "completed"
    return _CUT_SHORT.get(finish_reason.lower(), "completed")
