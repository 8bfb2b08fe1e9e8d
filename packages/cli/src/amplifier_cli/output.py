"""The one writer: everything that the command prints passes here and is made visible first."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TextIO, cast

import click

from amplifier_sandbox.visible_text import VisibleStream, json_text, visible

__all__ = [
    "AnswerOutput",
    "guard_streams",
    "only_the_question",
    "ring_bell",
    "say",
    "say_json",
    "say_now",
    "styled",
    "terminal_file",
    "unstyled",
]

_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_COLORS = {name: 30 + number for number, name in enumerate(_NAMES)}
# Styles travel inside of the text as marks that only this process can make, and become escape
# codes after the text between them was made visible. Text from outside cannot guess the mark.
_MARK = f"\ufdd0{os.urandom(8).hex()}:"
_END = "\ufdd1"
_STYLE = re.compile(f"{_MARK}([0-9;]+){_END}")
# What waits for the question that is open now, if one is.
_waiting: list[list[Callable[[], None]]] = []


def styled(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    """Return text that is shown in a style, as a part of what is given to `say`."""
    codes = [str(_COLORS[fg])] if fg else []
    codes += ["1"] if bold else []
    codes += ["2"] if dim else []
    if codes:
        return f"{_MARK}{';'.join(codes)}{_END}{text}{_MARK}0{_END}"
    return text


def unstyled(text: str) -> str:
    """Return text as it is shown, without its styles."""
    return visible(_STYLE.sub("", text))


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text: what could act on the terminal is spelled, then styles are applied."""
    _in_turn(lambda: say_now(text, err=err, nl=nl))


def say_now(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text even while a question is open: the question itself."""
    stream = sys.stderr if err else sys.stdout
    click.echo(_shown(text), file=terminal_file(stream), nl=nl)


def ring_bell() -> None:
    """Ring the bell of the terminal, if there is one."""
    stream = terminal_file(sys.stderr)
    if stream.isatty():
        click.echo("\a", file=stream, nl=False)


def say_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as JSON, in which nothing acts on a terminal and nothing is lost."""
    click.echo(json_text(value, indent=indent), file=terminal_file(sys.stdout))


@contextmanager
def only_the_question() -> Generator[None]:
    """Keep everything but `say_now` off the screen; it is printed once the question is closed."""
    waiting: list[Callable[[], None]] = []
    _waiting.append(waiting)
    try:
        yield
    finally:
        _waiting.remove(waiting)
        for write in waiting:
            write()


class AnswerOutput:
    """Writes an answer to stdout piece by piece; raises BrokenPipeError when nobody reads it."""

    def __init__(self) -> None:
        self._stream = VisibleStream()

    def write(self, text: str) -> None:
        """Write a piece."""
        self._write(self._stream.feed(text))

    def finish_piece(self) -> None:
        """Write what was held back until the next piece, because there is none."""
        self._write(self._stream.rest())

    def _write(self, shown: str) -> None:
        file = terminal_file(sys.stdout)
        file.write(shown)
        file.flush()


class _Guarded:
    """A standard stream for everybody but this file: libraries, loggers, tracebacks, modules."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        """Write text after it was made visible."""
        self.unguarded.write(visible(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write texts one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def guard_streams() -> None:
    """Have all that is printed by others made visible too, for the rest of this process."""
    if sys.stdin is not None:
        # Bytes that are not text are shown as such; they must not end the command.
        cast("Any", sys.stdin).reconfigure(errors="replace")
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is not None and not isinstance(stream, _Guarded):
            # What the terminal cannot encode is spelled as well, instead of ending the command.
            stream.reconfigure(errors="backslashreplace")
            setattr(sys, name, _Guarded(stream))


def terminal_file(stream: Any) -> TextIO:
    """Return the stream below the guard, for what draws with escape codes of its own."""
    return getattr(stream, "unguarded", stream)


def _in_turn(write: Callable[[], None]) -> None:
    """Write now, or after the question that is open."""
    if _waiting:
        _waiting[-1].append(write)
    else:
        write()


def _shown(text: str) -> str:
    # The pattern has one group: texts and codes take turns.
    parts = _STYLE.split(text)
    for at, part in enumerate(parts):
        parts[at] = f"\x1b[{part}m" if at % 2 else visible(part)
    return "".join(parts)
