"""What a tool call needs beyond the boundary of its sandbox, so that guards ask about just that.

A tool whose calls can need more has an asynchronous method `widenings(input)`, which returns them
and changes nothing. A guard asks about each of them, unless a grant for it exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["Kind", "Widening", "widenings_of"]

Kind: TypeAlias = Literal["network", "write", "background", "outside_sandbox"]

_WORDS: dict[Kind, str] = {
    "network": "network to",
    "write": "writing to",
    "background": "a process that stays",
    "outside_sandbox": "running outside of the sandbox",
}


@dataclass(frozen=True, slots=True)
class Widening:
    """One thing that a call needs: its kind, and which domain or path; `target` may be empty."""

    kind: Kind
    target: str = ""

    def __str__(self) -> str:
        return f"{_WORDS[self.kind]} {self.target}".rstrip()


async def widenings_of(tool: Any, tool_input: Any) -> list[Widening]:
    """Return what a call of `tool` needs; nothing for a tool that does not say."""
    find = getattr(tool, "widenings", None)
    if find is None:
        return []
    return await find(tool_input)
