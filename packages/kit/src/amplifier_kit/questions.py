"""Questions to the user about tool calls: what a tool shows of a call, and what a user can reply.

A tool can have an asynchronous method `preview_call(input)`. It returns a `Preview` of what the
call would do, or None, and changes nothing; guards show it instead of the arguments it covers.

An app's approval system can have an asynchronous method `request_reply(asking)`, which returns a
`Reply`. Without one, guards ask by `request_approval`, to which a reply is one of the options.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from amplifier_sandbox.visible_text import exact

__all__ = [
    "PREVIEW",
    "Asking",
    "Preview",
    "Reply",
    "Suggestion",
    "diff_lines",
    "is_diff",
    "is_lasting",
    "preview_of",
    "reply_of",
    "seen_line",
]

logger = logging.getLogger(__name__)

PREVIEW = "preview_call"
"""The method of a tool that returns a preview; its answers are recorded."""

Suggestion: TypeAlias = Literal["once", "lasting", "deny"]

# A preview that takes longer is given up, and the arguments are shown instead.
_LONGEST_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Preview:
    """What a call would do, for a user to read.

    `title` follows "Allow", as in "this command". `covers` are the arguments that are shown
    completely, by `text` or by `diff`, a unified diff without file names. `editable` is the name of
    an argument that is a text which the user may change before it runs.
    """

    title: str
    covers: tuple[str, ...]
    text: str = ""
    diff: str = ""
    editable: str = ""

    def record(self) -> dict[str, Any]:
        """Return it as JSON data; `Preview.of` reads it."""
        return asdict(self)

    @classmethod
    def of(cls, record: dict[str, Any]) -> Preview:
        """Return the preview of a record."""
        covers: list[str] = record["covers"]
        return cls(
            record["title"], tuple(covers), record["text"], record["diff"], record["editable"]
        )


async def preview_of(tool: Any, tool_input: Any) -> Preview | None:
    """Return the preview of a call; None if its tool makes none."""
    make: Any = getattr(tool, PREVIEW, None)
    if make is None:
        return None
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            made: Any = await make(tool_input)
    except Exception:
        # The arguments are shown instead, so that nothing is hidden.
        logger.exception("preview failed tool=%s", getattr(tool, "name", ""))
        return None
    return made if isinstance(made, Preview) else None


@dataclass(frozen=True, slots=True)
class Asking:
    """One question. `prompt` has all of it; `call_id` is the call that it is about, if it is one.

    `editable` is a text that the user may change, such as the command. `suggests` is
    the kind of answer that an app should have selected at first.
    """

    prompt: str
    options: tuple[str, ...]
    timeout: float
    default: Literal["allow", "deny"] = "deny"
    editable: str | None = None
    suggests: Suggestion = "once"
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The chosen option, the user's reason for it, and the text in place of the editable one."""

    option: str
    reason: str = ""
    edited: str | None = None


async def reply_of(system: Any, asking: Asking) -> Reply:
    """Ask through an approval system, of either kind; an answer that is not a text denies."""
    request = getattr(system, "request_reply", None)
    if request is not None:
        replied: Any = await request(asking)
        return replied if isinstance(replied, Reply) else Reply("")
    said: Any = await system.request_approval(
        asking.prompt, list(asking.options), asking.timeout, asking.default
    )
    return Reply(said if isinstance(said, str) else "")


def is_lasting(option: str) -> bool:
    """Whether an option allows more than one call."""
    word = option.strip().lower()
    return word.startswith("allow") and word not in ("allow", "allow once")


def seen_line(line: str, *, ends: bool = False) -> str:
    """Return a line with tabs drawn as arrows and what cannot be seen escaped.

    With `ends`, blanks at its end are drawn as dots.
    """
    bare = line.rstrip(" ") if ends else line
    dots = "·" * (len(line) - len(bare))
    return exact(bare.replace("\t", "→   ")) + dots


class _Row(NamedTuple):
    """A line of a diff with its number; `sign` is `+`, `-`, a blank, or empty for a gap."""

    number: int
    sign: str
    text: str


_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def is_diff(text: str) -> bool:
    """Whether a text is a unified diff without file names."""
    return _HUNK.fullmatch(text.partition("\n")[0]) is not None


def diff_lines(diff: str) -> list[str]:
    """Return a unified diff without file names as lines with a number and a sign, indented.

    Lines that are removed have the number in the old text, the others that in the new one.
    """
    rows = list(_rows(diff))
    width = max((len(str(each.number)) for each in rows), default=1)
    lines: list[str] = []
    for number, sign, text in rows:
        if not sign:
            lines.append(f"  {exact(text) or '⋮'}")
        else:
            shown = seen_line(text, ends=sign != " ")
            lines.append(f"  {number:>{width}} {sign} {shown}".rstrip(" "))
    return lines


def _rows(diff: str) -> Iterator[_Row]:
    old = new = 0
    is_first = True
    # The empty line behind the last line end is not one that an editor shows.
    for line in diff.removesuffix("\n ").split("\n"):
        hunk = _HUNK.fullmatch(line)
        if hunk is not None:
            old, new = int(hunk[1]), int(hunk[2])
            if not is_first:
                yield _Row(0, "", "")
        elif line[:1] == "-":
            yield _Row(old, "-", line[1:])
            old += 1
        elif line[:1] in ("+", " "):
            yield _Row(new, line[0], line[1:])
            new += 1
            old += line[0] == " "
        elif line:
            # How much a tool has left out.
            yield _Row(0, "", line)
        is_first = False
