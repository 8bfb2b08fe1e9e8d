"""A question in pages that fit the screen: nothing can be allowed before all of it was shown."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager

from amplifier_sandbox.visible_text import exact

NEXT_PAGE = "Show the next page"
CONTINUED = "↳ "
"""Begins a row that continues the line above, so that it cannot pass for a line of its own."""

_FEWEST_ROWS = 5
_FEWEST_COLUMNS = 20
# Around a page: the options, the mark to type at or the input line, and what stands above.
_OTHER_ROWS = 8


def question_text(prompt: str) -> str:
    """Return a question with everything in it that acts or hides spelled out; lines stay."""
    return "\n".join(exact(line) for line in prompt.split("\n"))


def denial(options: Sequence[str]) -> int:
    """Return which option denies, else the last."""
    found = [number for number, each in enumerate(options) if each.lower().startswith("den")]
    if found:
        return found[0]
    return len(options) - 1


def pages_of(prompt: str, columns: int, rows: int) -> list[str]:
    """Return a question as it is, or in several pages when the screen cannot show it whole."""
    text = question_text(prompt)
    height = max(rows - _OTHER_ROWS, _FEWEST_ROWS)
    lines = rows_of(text, columns)
    if len(lines) <= height:
        return [text]
    # Every page begins with what is asked, and with a line that says which page it is.
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
    """Return text as the rows that it takes on a screen."""
    width = max(columns, _FEWEST_COLUMNS)
    return [row for line in text.split("\n") for row in _rows(line, width)]


def _rows(line: str, width: int) -> Iterator[str]:
    """Yield a line in pieces that fit the width; what continues it begins with a mark."""
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
    # After a word, where that does not cost much of the row; the blank stays in it.
    blank = line.rfind(" ", start + (end - start) * 2 // 3, end)
    return end if blank < 0 else blank + 1


# When a question has waited so long, its user is probably away.
_AGAIN_SECONDS = 60.0


@contextmanager
def ringing(ring: Callable[[], None]) -> Generator[None]:
    """Ring now, and once more if what is inside takes long."""
    ring()
    again = asyncio.get_running_loop().call_later(_AGAIN_SECONDS, ring)
    try:
        yield
    finally:
        again.cancel()
