"""The app's way to show a hook's message to a person, as the kernel sees it."""

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
        """Show `message` and return at once; `source` names who says it."""
        ...
