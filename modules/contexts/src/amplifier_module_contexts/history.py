"""All messages of a conversation, each measured once, grouped into units that stay together."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from amplifier_core.history import answers_in, calls_in
from amplifier_module_contexts.sizes import message_size


class Units:
    """Groups a growing history into units; each message is processed once.

    A unit is a list of indexes: one message, or a message with tool calls and all their results,
    because vendors refuse one without the other. A result belongs to the latest call before it
    with its id and no result yet, because ids may repeat from turn to turn. `system` messages are
    never left out; `users` are prompts, not results.
    """

    def __init__(self) -> None:
        self._known = 0
        self._waiting: dict[Any, list[int]] = {}
        # Sorted by their newest message.
        self.all: list[list[int]] = []
        self.system: set[int] = set()
        self.users: set[int] = set()

    def update(self, messages: list[dict[str, Any]]) -> int:
        """Add the new messages; return the index of the first unit that changed."""
        first = len(self.all)
        for index in range(self._known, len(messages)):
            first = min(first, self._add(index, messages[index]))
        self._known = len(messages)
        return first

    def _add(self, index: int, message: dict[str, Any]) -> int:
        role = message["role"]
        answered = answers_in(message)
        homes = self._take_homes(answered)
        if homes:
            return self._answer(homes, index)
        unit = [index]
        self.all.append(unit)
        if role == "system":
            self.system.add(index)
        elif role == "assistant":
            self._waiting.update(dict.fromkeys(calls_in(message), unit))
        elif role == "user" and not answered:
            self.users.add(index)
        return len(self.all) - 1

    def _take_homes(self, answered: list[Any]) -> list[list[int]]:
        """Return the units whose calls are answered, and remove these calls from the open ones."""
        homes: list[list[int]] = []
        for answer in answered:
            unit = self._waiting.pop(answer, None)
            if unit is not None and all(unit is not home for home in homes):
                homes.append(unit)
        return homes

    def _answer(self, homes: list[list[int]], index: int) -> int:
        """Add the answer to its unit; units answered by one message are merged."""
        positions = sorted(bisect_left(self.all, home[-1], key=_newest) for home in homes)
        for position in reversed(positions):
            del self.all[position]
        unit = homes[0]
        unit[:] = sorted(member for home in homes for member in home)
        unit.append(index)
        self.all.append(unit)
        if len(homes) > 1:
            absorbed = [id(home) for home in homes[1:]]
            moved = [each for each, home in self._waiting.items() if id(home) in absorbed]
            self._waiting.update(dict.fromkeys(moved, unit))
        return positions[0]


def _newest(unit: list[int]) -> int:
    return unit[-1]


class History:
    """Messages, their sizes in characters and their units; each message is measured once."""

    __slots__ = ("_units", "messages", "restarts", "sizes", "total")

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.messages = messages
        self.sizes: list[int] = []
        self.total = 0
        self._units: Units | None = None
        # How often the list had become shorter than what was measured.
        self.restarts = 0

    @property
    def units(self) -> Units:
        """The messages in units; created on first use."""
        if self._units is None:
            self._units = Units()
        return self._units

    def measure(self, *new: Any) -> None:
        """Measure what is not measured yet, then `new`; raises ValueError for an invalid one."""
        # Shorter than before: the list was changed from outside, so everything is measured again.
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
