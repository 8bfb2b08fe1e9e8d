"""Terminal output and questions shared by all commands: columns, messages, confirmation."""

from __future__ import annotations

import os
import sys
import time
import unicodedata
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TypeVar

import click

from amplifier_cli.output import say, styled, terminal_file, unstyled
from amplifier_cli.platform_terminal import forget_typed_ahead
from amplifier_cli.render.plain import one_line
from amplifier_sandbox.visible_text import visible

__all__ = [
    "PAUSE_SECONDS",
    "ask_secret",
    "choose_from",
    "columns",
    "confirm",
    "fitted",
    "forget_typed_ahead",
    "heading",
    "is_terminal",
    "notice",
    "print_columns",
    "screen_size",
    "screen_width",
    "width_of",
    "working",
]

# Input before this time is discarded: nobody reads a question faster, and keys that were pressed
# before it appeared have arrived by then.
PAUSE_SECONDS = 0.3

_GAP = "  "

Option = TypeVar("Option", bound=str)


def width_of(text: str) -> int:
    """Return how many cells a text takes, not counting its styles."""
    bare = unstyled(text)
    if bare.isascii():
        return len(bare)
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in bare)
    return len(bare) + wide - sum(unicodedata.combining(each) > 0 for each in bare)


def fitted(text: str, width: int) -> str:
    """Return a text as one line, cut to `width` cells with a mark where it was cut."""
    line = one_line(text)
    if width_of(line) <= width:
        return line
    while line and width_of(line) > width - 1:
        line = line[:-1]
    return f"{line.rstrip()}…"


def screen_width() -> int:
    """Return `COLUMNS`, else the width of the terminal; 100 if there is none."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or 100
    except (OSError, ValueError):
        return 100


def screen_size() -> tuple[int, int]:
    """Return the columns and rows of the terminal that questions are shown on."""
    # Not `COLUMNS`: a page has to fit the real screen, or a part of it scrolls away unread.
    try:
        columns, rows = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):
        return 80, 24
    return columns or 80, rows or 24


def is_terminal() -> bool:
    """Whether a user can be asked: stdin and stderr are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> None:
    """Ask for a yes, typed after the question is drawn.

    Raises:
        click.Abort: the answer is anything else.
    """
    if _answer(question, "[y/N]").lower() not in ("y", "yes"):
        raise click.Abort


def choose_from(question: str, options: Sequence[Option], default: Option) -> Option:
    """Ask until the answer is one of the options; an empty line is the default.

    Raises:
        click.Abort: the input ended.
    """
    while True:
        said = _answer(f"{question} ({', '.join(options)})", f"[{default}]") or default
        found = next((each for each in options if each == said), None)
        if found is not None:
            return found
        say(f"Please type one of: {', '.join(options)}.", err=True)


def ask_secret(question: str) -> str:
    """Return a line that is not echoed.

    Raises:
        click.Abort: the input ended.
    """
    from getpass import getpass  # noqa: PLC0415 - only `init` needs it

    try:
        return getpass(f"{question}: ").strip()
    except EOFError:
        raise click.Abort from None


def _answer(question: str, mark: str) -> str:
    """Return a line; input from before the mark appears is discarded."""
    say(f"{question} ", err=True, nl=False)
    time.sleep(PAUSE_SECONDS)
    forget_typed_ahead()
    say(f"{mark}: ", err=True, nl=False)
    line = sys.stdin.readline()
    if not line:
        raise click.Abort
    return line.strip()


def columns(
    rows: Iterable[Sequence[str]], heads: Sequence[str] = (), *, right: Iterable[int] = ()
) -> list[str]:
    """Return rows as aligned lines below their heads; columns in `right` are right-aligned."""
    body = [[_on_one_line(cell) for cell in row] for row in rows]
    if heads:
        table = [[styled(head, dim=True) for head in heads], *body]
    else:
        table = body
    if not table:
        return []
    flush = set(right)
    widths = [max(width_of(row[at]) for row in table) for at in range(len(table[0]))]
    lines: list[str] = []
    for row in table:
        cells: list[str] = []
        for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - width_of(cell))
            cells.append(f"{space}{cell}" if at in flush else f"{cell}{space}")
        lines.append(_GAP.join(cells).rstrip())
    return lines


def _on_one_line(cell: str) -> str:
    """Return a cell without line breaks, which could imitate rows of the table."""
    return cell.replace("\n", "\\n").replace("\t", "\\t")


def print_columns(
    rows: Iterable[Sequence[str]], heads: Sequence[str] = (), *, right: Iterable[int] = ()
) -> None:
    """Print rows as `columns` lays them out."""
    for line in columns(rows, heads, right=right):
        say(line)


def heading(text: str) -> None:
    """Print a title above what follows."""
    say(styled(_on_one_line(text), bold=True))


def notice(text: str, *, level: str = "info") -> None:
    """Print a message to stderr, so that a pipe carries the answer alone."""
    color = {"warning": "yellow", "error": "red"}.get(level)
    # Indented, so that a line of untrusted text cannot imitate a message of its own.
    lines = text.replace("\n", "\n  ")
    say(styled(lines, fg=color, dim=color is None), err=True)


@contextmanager
def working(what: str) -> Generator[None]:
    """Show a spinner with the elapsed time, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415 - only at a terminal
    from rich.markup import escape  # noqa: PLC0415 - as above
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

    shown = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(file=terminal_file(sys.stderr))
    with Progress(*shown, console=console, transient=True) as progress:
        progress.add_task(escape(visible(what)))
        yield
