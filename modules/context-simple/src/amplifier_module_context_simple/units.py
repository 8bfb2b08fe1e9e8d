"""The history in units: messages that stay together or go together."""

from __future__ import annotations

from typing import Any

from amplifier_core.history import answers_in, calls_in


class Units:
    """Groups a growing history; each message is looked at once.

    A unit is a list of positions: one message, or a message with tool calls and all their results.
    A result belongs to the latest call before it that has its id and no result yet, so ids may
    repeat from turn to turn. `system` messages stand apart; `users` are prompts, not results.
    """

    def __init__(self) -> None:
        self._known = 0
        self._units: list[list[int]] = []
        self._waiting: dict[Any, list[int]] = {}
        self.system: list[int] = []
        self.users: set[int] = set()

    def update(self, messages: list[dict[str, Any]]) -> list[list[int]]:
        """Take in the messages that are new; return all units by their newest, oldest first."""
        for index in range(self._known, len(messages)):
            self._add(index, messages[index])
        self._known = len(messages)
        return sorted(self._units, key=lambda unit: unit[-1])

    def _add(self, index: int, message: dict[str, Any]) -> None:
        role = message["role"]
        if role == "system":
            self.system.append(index)
            return
        answered = answers_in(message)
        unit = self._answered_unit(answered)
        if unit is not None:
            unit.append(index)
            return
        self._units.append([index])
        if role == "assistant":
            self._waiting.update(dict.fromkeys(calls_in(message), self._units[-1]))
        elif role == "user" and not answered:
            self.users.add(index)

    def _answered_unit(self, answered: list[Any]) -> list[int] | None:
        """Return the unit whose calls are answered; units answered by one message become one."""
        home: list[int] | None = None
        for answer in answered:
            unit = self._waiting.pop(answer, None)
            if unit is None or unit is home:
                continue
            if home is None:
                home = unit
                continue
            home[:] = sorted(home + unit)
            self._units = [each for each in self._units if each is not unit]
            moved = [each for each, waiting in self._waiting.items() if waiting is unit]
            self._waiting.update(dict.fromkeys(moved, home))
        return home
