"""Write a call down for the user who decides about it: all of it, and as readable as it can be.

Lines of the question itself begin in the first column; everything that comes from a call is
indented, and its characters are escaped, so that no argument can imitate the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from amplifier_kit.questions import Preview, Suggestion, diff_lines, seen_line
from amplifier_module_hooks_approval.rules import Call, canonical
from amplifier_sandbox.visible_text import exact

_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_WORD = re.compile(r"[\w./:*~@+-]+")
# What would be read as something other than a text, if it stood there without quotes.
_LIKE_JSON = re.compile(r'[\s"\[{].*|.*\s|-?\d.*|true|false|null|', re.DOTALL)
_ESCAPED = "Characters that could not be seen are written as \\u and their number."


@dataclass(frozen=True)
class CallView:
    """How a call is shown: what its tool made of it, and the agent that makes it.

    `order` are the names of the tool's arguments in the order of its schema.
    """

    preview: Preview | None = None
    order: tuple[str, ...] = ()
    agent: str = ""
    # Whether the reason for the question says more than that everything is asked about.
    tells_why: bool = True
    suggests: Suggestion = "once"


def title_of(call: Call, view: CallView) -> str:
    """Return what the call is, as it follows "Allow"."""
    if view.preview is None:
        return _name(call.tool)
    return exact(view.preview.title)


def headline(calls: list[tuple[Call, CallView]]) -> str:
    """Return the question about calls of one session."""
    call, view = calls[0]
    if len(calls) == 1:
        asked = f"Allow {title_of(call, view)}?"
    else:
        asked = f"Allow these {len(calls)} calls?"
    if view.agent:
        return f"{asked} Asked by {exact(view.agent)}."
    return asked


def call_lines(call: Call, view: CallView) -> list[str]:
    """Return everything that a call has, each line indented."""
    lines = list(_lines(call, view))
    if any(_hides(text) for text in _texts(call.tool, call.arguments)):
        lines.append(_ESCAPED)
    return lines


def _lines(call: Call, view: CallView) -> Iterator[str]:
    preview = view.preview
    covered: tuple[str, ...] = ()
    if preview is not None:
        covered = preview.covers
        if preview.diff:
            yield from diff_lines(preview.diff)
        elif preview.text or preview.editable:
            yield from _block(preview.text, "  $ ")
        else:
            yield "  nothing changes"
    named = call.named_arguments
    if not named:
        # Without arguments, or with something that is not a set of them.
        if call.arguments != {}:
            yield f"  {canonical(call.arguments)}"
        return
    known = [name for name in view.order if name in named]
    others = sorted(name for name in named if name not in known)
    for name in (*known, *others):
        if name not in covered:
            yield from _argument(name, named[name])


def _argument(name: str, value: Any) -> Iterator[str]:
    label = _name(name)
    if isinstance(value, str) and "\n" in value:
        yield f"  {label}:"
        yield from _block(value, "  │ ")
        return
    yield f"  {label}: {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return canonical(value) if _LIKE_JSON.fullmatch(value) else exact(value)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if items and all(isinstance(each, str) and _WORD.fullmatch(each) for each in items):
            return ", ".join(exact(each) for each in items)
    return canonical(value)


def _name(name: str) -> str:
    return name if _NAME.fullmatch(name) else canonical(name)


def _block(text: str, first: str) -> Iterator[str]:
    lead = first
    for line in text.split("\n"):
        yield f"{lead}{seen_line(line)}"
        lead = "  │ "


def _texts(*values: Any) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            facts = cast("dict[Any, Any]", value)
            yield from _texts(*facts, *facts.values())
        elif isinstance(value, list):
            yield from _texts(*cast("list[Any]", value))


def _hides(text: str) -> bool:
    return any(exact(line) != line for line in text.replace("\t", " ").split("\n"))
