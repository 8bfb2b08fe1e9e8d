"""Detects that a model repeats the same calls."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple, TypeAlias

from amplifier_core.message_models import ToolCall

_LONGEST_PERIOD = 4
# Rounds between warning the model and asking the user.
_PATIENCE = 2
_LONGEST_EVIDENCE = 200


Action = Literal["nudge", "ask"]


Step: TypeAlias = list[tuple[str, dict[str, Any]]]


class Circle(NamedTuple):
    """A repeated round: the calls of each of its steps, how often it was made, what to do."""

    pattern: list[list[str]]
    repetitions: int
    action: Action

    def __str__(self) -> str:
        steps = [" and ".join(map(_shortened, step)) for step in self.pattern]
        return f"{', then '.join(steps)}: {self.repetitions} times in a row"


class Repetition:
    """Compares the calls of each step with those before it, arguments included.

    Results are not compared: a model that polls makes equal calls for a good reason, but is warned
    before anything else is done.
    """

    def __init__(self, after: int) -> None:
        """`after` is how many equal rounds are too many; 0 switches the detection off."""
        self._after = after
        self.forget()

    def forget(self) -> None:
        """Start over, because something happened that makes equal calls sensible."""
        self._steps: list[Step] = []
        # For each period, how many steps in a row equal the one that many steps before.
        self._equal: dict[int, int] = {}
        self._done: Action | None = None

    def take(self, calls: list[ToolCall]) -> Circle | None:
        """Add the calls of one step; returns the circle if something is to be done about one."""
        if not self._after:
            return None
        step = [(call.name, call.arguments) for call in calls]
        before = self._steps
        if step in before:
            # Counted from the end: the step one period ago is the last, and so on.
            self._equal = {
                period: self._equal.get(period, 0) + 1
                for period, earlier in enumerate(reversed(before), start=1)
                if earlier == step
            }
        elif self._equal:
            self._equal = {}
            self._done = None
        before.append(step)
        del before[:-_LONGEST_PERIOD]
        if self._equal:
            return self._judge()
        return None

    def _judge(self) -> Circle | None:
        # A, A, A, A also has the period 2; the shortest period has the most repetitions.
        period = max(self._equal, key=self._repetitions)
        repetitions = self._repetitions(period)
        due = self._due(repetitions)
        if due is None or due == self._done:
            return None
        self._done = due
        return Circle([*map(_written, self._steps[-period:])], repetitions, due)

    def _repetitions(self, period: int) -> int:
        return self._equal[period] // period + 1

    def _due(self, repetitions: int) -> Action | None:
        if repetitions < self._after:
            self._done = None
            return None
        if repetitions < self._after + _PATIENCE:
            return "nudge"
        return "ask"


def _canonical(arguments: dict[str, Any]) -> str:
    try:
        return json.dumps(arguments, sort_keys=True, separators=(",", ":"), default=str)
    except (TypeError, ValueError):
        return repr(arguments)  # keys that cannot be sorted, or a dict that contains itself


def _written(step: Step) -> list[str]:
    return [f"{name}({_canonical(arguments)})" for name, arguments in step]


def _shortened(call: str) -> str:
    if len(call) <= _LONGEST_EVIDENCE:
        return call
    return f"{call[:_LONGEST_EVIDENCE]}..."
