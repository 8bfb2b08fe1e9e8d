"""Split a question into pages that fit the screen: it can be allowed only on the last one."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager

from amplifier_kit.questions import Suggestion, is_lasting
from amplifier_sandbox.visible_text import exact

NEXT_PAGE = "Show the next page"
# An argument could be padded so that its wrapped rows look like lines of the question itself.
CONTINUED = "↳ "
"""Begins a row that continues the line above, so that it cannot pass for a line of its own."""

MOST_ROWS = 200
"""The most rows of a page on a screen of any height; a longer question is drawn shortened."""

# Nothing else in a question begins with a number: arguments have a name or a bar before them.
_DIFF_LINE = re.compile(r" +\d+ ([-+])(?: |$)")
_FEWEST_ROWS = 4
_FEWEST_COLUMNS = 20


def question_text(prompt: str) -> str:
    """Return a question with control and invisible characters escaped; its lines stay."""
    return "\n".join(exact(line) for line in prompt.split("\n"))


def denial(options: Sequence[str]) -> int:
    """Return the index of the option that denies, else of the last."""
    found = [number for number, each in enumerate(options) if each.lower().startswith("den")]
    if found:
        return found[0]
    return len(options) - 1


def letters_of(options: Sequence[str]) -> dict[str, int]:
    """Return the letters that choose an option: y allows once, a for longer, n denies."""
    found = {"n": denial(options)}
    for number, option in enumerate(options):
        if number == found["n"]:
            continue
        if is_lasting(option):
            found.setdefault("a", number)
        elif option.lower().startswith(("allow", "yes")):
            found.setdefault("y", number)
    return found


def suggestion(options: Sequence[str], suggests: Suggestion) -> int:
    """Return the index of the option that Enter takes at first."""
    if options[0] == NEXT_PAGE:
        return 0
    deny = denial(options)
    if suggests == "deny":
        return deny
    letters = letters_of(options)
    once = letters.get("y", deny)
    if suggests == "lasting":
        return letters.get("a", once)
    return once


def pages_of(prompt: str, columns: int, rows: int) -> list[str]:
    """Return a question as one page, or as several if it takes more rows than there are for it."""
    text = question_text(prompt)
    height = min(max(rows, _FEWEST_ROWS), MOST_ROWS)
    lines = rows_of(text, columns)
    if len(lines) <= height:
        return [text]
    # Every page repeats what is asked, followed by its page number.
    first = lines[0]
    parts = [lines[at : at + height - 2] for at in range(1, len(lines), height - 2)]
    pages: list[str] = []
    for number, part in enumerate(parts, start=1):
        if number < len(parts):
            rest = "It can be allowed on the last page."
        else:
            rest = "The last page."
        page = "\n".join(part)
        pages.append(f"{first}\nPage {number} of {len(parts)}. {rest}\n{page}")
    return pages


def rows_of(text: str, columns: int) -> list[str]:
    """Return the rows that a text takes on a screen."""
    width = max(columns, _FEWEST_COLUMNS)
    return [row for line in text.split("\n") for row in _rows(line, width)]


def signed_rows(text: str, columns: int) -> Iterator[tuple[str, str]]:
    """Yield the rows of a question and their signs: `?` for its head, `+` and `-` in a diff."""
    for number, (line, sign) in enumerate(signed_lines(text.split("\n"))):
        for row in rows_of(line, columns):
            yield row, sign if number else "?"


def signed_lines(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield lines, each with the sign that it has in a diff, if it is of one."""
    sign = ""
    for line in lines:
        # A page may begin in the middle of a line: what continues a line has its sign.
        if not line.startswith(CONTINUED):
            found = _DIFF_LINE.match(line)
            sign = "" if found is None else found[1]
        yield line, sign


def _rows(line: str, width: int) -> Iterator[str]:
    """Yield a line in rows that fit the width; all but the first begin with a mark."""
    start = 0
    mark = ""
    while True:
        end = _end_of_row(line, start, width - len(mark))
        yield f"{mark}{line[start:end]}"
        start = end
        mark = CONTINUED
        if start == len(line):
            return


def _end_of_row(line: str, start: int, width: int) -> int:
    cells = 0
    end = len(line)
    for at in range(start, len(line)):
        cells += 2 if unicodedata.east_asian_width(line[at]) in "WF" else 1
        if cells > width:
            end = at
            break
    if end == len(line):
        return end
    # Break after a word if that wastes at most a third of the row. The blank stays in the row,
    # because a question is shown without loss.
    blank = line.rfind(" ", start + (end - start) * 2 // 3, end)
    return end if blank < 0 else blank + 1


# After this time the user has probably left the terminal.
_AGAIN_SECONDS = 60.0


@contextmanager
def ringing(ring: Callable[[], None]) -> Generator[None]:
    """Ring now, and once more if the block takes long."""
    ring()
    again = asyncio.get_running_loop().call_later(_AGAIN_SECONDS, ring)
    try:
        yield
    finally:
        again.cancel()
