"""Apply edits to a text: each must match exactly once, and line endings are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from heapq import nlargest
from typing import NamedTuple

from amplifier_sandbox.files.names import shown

# Comparing character by character is slow: at most this many lines, up to this length.
_MOST_COMPARED = 50
_LONGEST_COMPARED = 300
_MOST_PLACES = 10
_WORD = re.compile(r"\w+")


class Edit(NamedTuple):
    """A text and its replacement."""

    old: str
    new: str
    replace_all: bool = False


class NoMatchError(Exception):
    """An edit matches nothing or is ambiguous; the message says how to correct it."""


def with_line_ends_of(old: str, text: str) -> str:
    """Return `text` with CRLF if all line endings of `old` are CRLF and `text` has none."""
    if _has_only_crlf(old) and "\r\n" not in text:
        return text.replace("\n", "\r\n")
    return text


def replaced(text: str, edits: Sequence[Edit]) -> str:
    """Return the text after all edits, with its line endings kept.

    Raises NoMatchError for the first edit that does not match.
    """
    # Models write LF, whatever the file has; both are compared with LF and CRLF is put back.
    crlf = _has_only_crlf(text)
    if crlf:
        text = text.replace("\r\n", "\n")
    for number, edit in enumerate(edits, start=1):
        if crlf:
            lf = edit.old.replace("\r\n", "\n"), edit.new.replace("\r\n", "\n")
            edit = Edit(*lf, edit.replace_all)
        _require_match(text, edit, f"Edit {number}: " if len(edits) > 1 else "")
        text = text.replace(edit.old, edit.new)
    if crlf:
        return text.replace("\n", "\r\n")
    return text


def _require_match(text: str, edit: Edit, where: str) -> None:
    count = text.count(edit.old)
    if edit.old == edit.new:
        raise NoMatchError(f"{where}The old text and the new one are the same.")
    if count == 0:
        raise NoMatchError(f"{where}The old text is not in the file. {_closest(text, edit.old)}")
    if count > 1 and not edit.replace_all:
        lines = ", ".join(str(line) for line in _line_numbers(text, edit.old))
        raise NoMatchError(
            f"{where}The old text is in the file {count} times, at lines {lines}"
            f"{' and more' if count > _MOST_PLACES else ''}. Give more of the text around the one "
            "you mean, or set `replace_all`."
        )


def _line_numbers(text: str, old: str) -> Iterator[int]:
    at = -1
    for _ in range(min(text.count(old), _MOST_PLACES)):
        at = text.index(old, at + 1)
        yield text.count("\n", 0, at) + 1


def _closest(text: str, old: str) -> str:
    """Return a sentence about the line of the file that is most similar to the first one of `old`.

    The lines with the most words in common are compared in detail; all of them would be too slow.
    """
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")
    wanted = wanted[:_LONGEST_COMPARED]
    lines = text.split("\n")
    lines = [line.strip()[:_LONGEST_COMPARED] for line in lines]
    words = set(_WORD.findall(wanted))
    likely = nlargest(
        _MOST_COMPARED, dict.fromkeys(lines), lambda line: len(words & set(_WORD.findall(line)))
    )
    found = get_close_matches(wanted, likely, n=1, cutoff=0.5)
    if not found:
        return "No line is like it. Read the file again."
    number = lines.index(found[0]) + 1
    if found[0] == wanted:
        return (
            f"Line {number} is like its first line, so the difference is in the blanks or in the "
            f"lines after it. Read the file again from line {number}."
        )
    return f"The closest line is {number}: `{shown(found[0])}`"


def _has_only_crlf(text: str) -> bool:
    return "\r\n" in text and text.count("\r\n") == text.count("\n")
