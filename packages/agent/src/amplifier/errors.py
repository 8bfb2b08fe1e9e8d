"""The error of the library: what happened, why, and what to do next."""

from __future__ import annotations

from amplifier_kit.explained_error import ExplainedError

__all__ = ["AgentError"]


class AgentError(ExplainedError):
    """An agent cannot be built or run as it was described."""
