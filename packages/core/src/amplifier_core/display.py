"""The protocol by which an app shows a hook's message to the user."""

from __future__ import annotations

from typing import Literal, Protocol

from amplifier_core._structural import structural

__all__ = ["DisplaySystem"]


@structural
class DisplaySystem(Protocol):
    """Shows messages."""

    def show_message(
        self, message: str, level: Literal["info", "warning", "error"], source: str = "hook"
    ) -> None:
        """Show `message` and return immediately; `source` names its origin."""
        ...
