"""A tool call as a person is asked about it: exact, on one line per argument, nothing hidden."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from amplifier_sandbox.visible_text import exact


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
        if isinstance(given, dict):
            return cast("dict[str, Any]", given)
        return {}

    def __str__(self) -> str:
        """All of it: nothing may be allowed that was not shown."""
        named = self.named_arguments
        lines = [f"  {canonical(name)}: {canonical(named[name])}" for name in sorted(named)]
        lines = lines or [f"  {canonical(self.arguments)}"]
        return "\n".join([f"Tool: {canonical(self.tool)}", *lines])


def call_from(data: Any) -> Call:
    """Return the call that an event is about; what is missing is empty."""
    if isinstance(data, dict):
        facts = cast("dict[str, Any]", data)
    else:
        facts = {}

    def text(name: str) -> str:
        value = facts.get(name)
        if isinstance(value, str):
            return value
        return ""

    return Call(
        session_id=text("session_id"),
        call_id=text("tool_call_id"),
        tool=text("tool_name"),
        arguments=facts.get("tool_input"),
        group=text("parallel_group_id"),
        moment=text("timestamp"),
    )
