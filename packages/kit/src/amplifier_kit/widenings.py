"""What a tool call needs beyond the boundary of its sandbox, so that guards ask about just that.

A tool whose calls can need more has an asynchronous method `widenings(input)`, which returns them
and changes nothing. A guard asks about each of them, unless a grant for it exists.

Guards ask a tool more about a call: `only_reads(input)`, whether it changes nothing,
`reaches_outside(input)`, whether it brings text from outside into the session, and
`call_scopes(input)`, which larger sets of calls it belongs to, so that one answer can be about all
calls of such a set: every use of a program, every edit in a folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from amplifier_kit.questions import PREVIEW

__all__ = [
    "OPENINGS",
    "QUESTIONS",
    "CallScope",
    "Kind",
    "Widening",
    "call_scopes_of",
    "widenings_of",
]

QUESTIONS = ("widenings", "only_reads", "reaches_outside", "call_scopes", PREVIEW)
"""The methods by which a tool tells guards about a call; their answers are recorded."""

Kind: TypeAlias = Literal["network", "pages", "write", "background", "outside_sandbox"]

# A name with a dot whose last part is no number: neither an address nor a misspelled `packages`.
_DOMAIN = r"([a-z0-9_-]+\.)+[a-z0-9_-]*[a-z_-][a-z0-9_-]*"
# Commands write to the workspace anyway, except to `.git`: other relative paths lead out of it.
_FOLDER = r"\.git|[/~]\S*|\.\.(/\S*)?"

OPENINGS = (
    rf"network:(packages|(\*\.)?{_DOMAIN}(:\d+)?)|pages:([a-z0-9._-]+|https?://[a-z0-9._-]+:\d+)"
    rf"|write:({_FOLDER})|background"
)
"""How a user writes what may be opened without a question: a regular expression.

Leaving the sandbox is not among it: that is decided call by call.
"""

_WORDS: dict[Kind, str] = {
    "network": "network to",
    "pages": "reading pages of",
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
        name, space, addresses = self.target.partition(" ")
        if (self.kind, name) == ("network", "packages"):
            name = "the package registries"
        return f"{_WORDS[self.kind]} {name}{space}{addresses}".rstrip()

    def record(self) -> dict[str, str]:
        """Return it as JSON data; `Widening(**data)` reads it."""
        return {"kind": self.kind, "target": self.target}


@dataclass(frozen=True, slots=True)
class CallScope:
    """A set of calls that one answer can be about: the key that all of them have, and its words.

    A set is about calls inside of the sandbox; what a call needs beyond it is granted apart.
    """

    key: str
    words: str

    def __str__(self) -> str:
        return self.words

    def record(self) -> dict[str, str]:
        """Return it as JSON data; `CallScope(**data)` reads it."""
        return {"key": self.key, "words": self.words}


def call_scopes_of(tool: Any, tool_input: Any) -> list[CallScope]:
    """Return the scopes that a call of `tool` belongs to, the one to offer first.

    Nothing for a tool that does not say, and for a call that can only be allowed by itself.
    """
    find = getattr(tool, "call_scopes", None)
    if find is None:
        return []
    return find(tool_input)


async def widenings_of(tool: Any, tool_input: Any) -> list[Widening]:
    """Return what a call of `tool` needs; nothing for a tool that does not say."""
    find = getattr(tool, "widenings", None)
    if find is None:
        return []
    return await find(tool_input)
