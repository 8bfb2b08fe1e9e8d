"""The stored messages, measured and grouped as they come."""

from __future__ import annotations

from typing import Any

from amplifier_module_contexts.size import message_size
from amplifier_module_contexts.units import Units


class History:
    """Messages, their sizes in characters and their units; each message is measured once."""

    __slots__ = ("_units", "messages", "restarts", "sizes", "total")

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.messages = messages
        self.sizes: list[int] = []
        self.total = 0
        self._units: Units | None = None
        # How often the list was found shorter than it had been.
        self.restarts = 0

    @property
    def units(self) -> Units:
        """The messages in units; grouped when somebody first asks for them."""
        if self._units is None:
            self._units = Units()
        return self._units

    def measure(self, *new: Any) -> None:
        """Measure what is not measured yet, then `new`; a ValueError says what is no message."""
        if len(self.sizes) > len(self.messages):
            self.sizes = []
            self.total = 0
            self._units = None
            self.restarts += 1
        for message in (*self.messages[len(self.sizes) :], *new):
            if not isinstance(message, dict) or "role" not in message:
                raise ValueError("Message must be a dict with a 'role' field")
            size = message_size(message)  # pyright: ignore[reportUnknownArgumentType] - callers may pass anything
            self.sizes.append(size)
            self.total += size
