"""What all commands print with: aligned columns, notices beside the answer, harmless text."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

import click

from amplifier_cli.render.plain import one_line, visible

__all__ = [
    "columns",
    "fitted",
    "heading",
    "is_terminal",
    "notice",
    "print_columns",
    "screen_width",
    "width_of",
    "working",
]

_GAP = "  "


def width_of(text: str) -> int:
    """Return how many cells a text takes, whatever its colours."""
    bare = click.unstyle(text)
    if bare.isascii():
        return len(bare)
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in bare)
    return len(bare) + wide - sum(unicodedata.combining(each) > 0 for each in bare)


def fitted(text: str, width: int) -> str:
    """Return one line of a text, cut to `width` cells with a mark where it goes on."""
    line = one_line(text)
    if width_of(line) <= width:
        return line
    while line and width_of(line) > width - 1:
        line = line[:-1]
    return f"{line.rstrip()}…"


def screen_width() -> int:
    """Return the width of the terminal, `COLUMNS` first; 100 when there is none."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or 100
    except (OSError, ValueError):
        return 100


def is_terminal() -> bool:
    """Whether a person sits at both ends and can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def columns(
    rows: Iterable[Sequence[str]], heads: Sequence[str] = (), *, right: Iterable[int] = ()
) -> list[str]:
    """Return rows as aligned lines below their heads; columns in `right` end flush."""
    body = [list(row) for row in rows]
    table = [[click.style(head, dim=True) for head in heads], *body] if heads else body
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


def print_columns(
    rows: Iterable[Sequence[str]], heads: Sequence[str] = (), *, right: Iterable[int] = ()
) -> None:
    """Print rows as `columns` lays them out."""
    for line in columns(rows, heads, right=right):
        click.echo(line)


def heading(text: str) -> None:
    """Print a title above what follows."""
    click.echo(click.style(text, bold=True))


def notice(text: str, *, level: str = "info") -> None:
    """Print a line beside the answer: to stderr, so that a pipe carries the answer alone."""
    color = {"warning": "yellow", "error": "red"}.get(level)
    click.echo(click.style(visible(text), fg=color, dim=color is None), err=True)


@contextmanager
def working(what: str) -> Generator[None]:
    """Show that something is under way and for how long, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415 - only where there is a person to see it
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

    shown = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*shown, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(what)
        yield
