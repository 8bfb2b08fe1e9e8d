"""How a tool tells the model that it could not do what was asked."""

from __future__ import annotations

from amplifier_core.models import ToolResult

__all__ = ["tool_failure"]


def tool_failure(message: str, **facts: str) -> ToolResult:
    """Return a result that says why a call failed, with facts a program can read."""
    return ToolResult(success=False, error={"message": message, **facts})
