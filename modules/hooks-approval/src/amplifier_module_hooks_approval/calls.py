"""A tool call as a person is asked about it: exact, on one line per argument, nothing hidden."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from amplifier_kit.visible_text import exact

_HEAD, _TAIL = 1_500, 500
_MOST_ARGUMENTS = 40


def canonical(value: Any) -> str:
    """Return a value as JSON in one line; what could deceive the eye is escaped."""
    return exact(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str))


@dataclass(frozen=True)
class Call:
    """One call of a tool; two of equal `digest` do the same."""

    session_id: str
    call_id: str
    tool: str
    arguments: Any
    group: str
    # When the hooks were told of it: the same id may come twice, the same moment does not.
    moment: str

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the tool's name and the arguments."""
        exact = json.dumps([self.tool, self.arguments], sort_keys=True, default=str)
        return hashlib.sha256(exact.encode()).hexdigest()

    @property
    def named_arguments(self) -> dict[str, Any]:
        """The arguments by name; none when they have no names."""
        given = self.arguments
        return cast("dict[str, Any]", given) if isinstance(given, dict) else {}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        named = self.named_arguments
        yield f"Tool: {canonical(self.tool)}"
        if not named:
            yield f"  {_shortened(canonical(self.arguments))}"
        for name in sorted(named)[:_MOST_ARGUMENTS]:
            yield f"  {_shortened(canonical(name))}: {_shortened(canonical(named[name]))}"
        if len(named) > _MOST_ARGUMENTS:
            yield f"  and {len(named) - _MOST_ARGUMENTS} more arguments that are not shown"


def _shortened(text: str) -> str:
    left_out = len(text) - _HEAD - _TAIL
    if left_out <= 0:
        return text
    return f"{text[:_HEAD]} [{left_out} CHARACTERS ARE NOT SHOWN HERE] {text[-_TAIL:]}"


def call_from(data: Any) -> Call:
    """Return the call that an event is about; what is missing is empty."""
    facts = cast("dict[str, Any]", data) if isinstance(data, dict) else {}

    def text(name: str) -> str:
        value = facts.get(name)
        return value if isinstance(value, str) else ""

    return Call(
        session_id=text("session_id"),
        call_id=text("tool_call_id"),
        tool=text("tool_name"),
        arguments=facts.get("tool_input"),
        group=text("parallel_group_id"),
        moment=text("timestamp"),
    )
