"""The only writer: all output of the command passes here, with control characters escaped."""

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
    "control_terminal",
    "guard_streams",
    "only_the_question",
    "say",
    "say_json",
    "say_now",
    "styled",
    "terminal_file",
    "unstyled",
    "write_line",
]

_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_COLORS = {name: 30 + number for number, name in enumerate(_NAMES)}
# Styles are embedded in the text as random marks, and become escape codes after the text between
# them was escaped. Letting colour codes through by a pattern would let a file name colour itself.
_MARK = f"\ufdd0{os.urandom(8).hex()}:"
_END = "\ufdd1"
_STYLE = re.compile(f"{_MARK}([0-9;]+){_END}")
# One list per open question, of the output that is postponed until the question is closed.
_waiting: list[list[Callable[[], None]]] = []


def styled(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    """Return text marked with a style, to be used in a text for `say`."""
    codes = [str(_COLORS[fg])] if fg else []
    codes += ["1"] if bold else []
    codes += ["2"] if dim else []
    if codes:
        return f"{_MARK}{';'.join(codes)}{_END}{text}{_MARK}0{_END}"
    return text


def unstyled(text: str) -> str:
    """Return text as it is shown, without styles."""
    return visible(_STYLE.sub("", text))


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text: escape what could act on the terminal, then apply styles."""
    _in_turn(lambda: say_now(text, err=err, nl=nl))


def say_now(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text even while a question is open; used for the question itself."""
    stream = sys.stderr if err else sys.stdout
    click.echo(_shown(text), file=terminal_file(stream), nl=nl)


def control_terminal(sequence: str) -> None:
    """Write a bell or another sequence of our own to the terminal, if there is one."""
    # Through the unguarded stream, because the guard would escape control characters.
    stream = terminal_file(sys.stderr)
    if stream.isatty():
        stream.write(sequence)
        stream.flush()


def say_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as JSON, in which control characters are escaped without loss."""
    click.echo(json_text(value, indent=indent), file=terminal_file(sys.stdout))


def write_line(line: bytes) -> None:
    """Write a line of JSON to stdout as it is; on a terminal control characters are escaped.

    Raises:
        OSError: stdout does not take it.
    """
    file = terminal_file(sys.stdout)
    if file.isatty():
        import json  # noqa: PLC0415 - every command imports this file, few read JSON

        value = json.loads(line)
        _in_turn(lambda: say_json(value, indent=None))
        return
    # Past the buffer: what a closed pipe did not take would fail again at exit.
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(file.fileno(), rest) :]


@contextmanager
def only_the_question() -> Generator[None]:
    """Postpone all output but `say_now` until the question is closed."""
    # Otherwise text from a module could imitate options of the question, or scroll it away.
    waiting: list[Callable[[], None]] = []
    _waiting.append(waiting)
    try:
        yield
    finally:
        _waiting.remove(waiting)
        for write in waiting:
            write()


class AnswerOutput:
    """Writes an answer to stdout piece by piece; raises BrokenPipeError if the reader is gone."""

    def __init__(self) -> None:
        self._stream = VisibleStream()

    def write(self, text: str) -> None:
        """Write a piece."""
        self._write(self._stream.feed(text))

    def finish_piece(self) -> None:
        """Write what was held back for a next piece, because none follows."""
        self._write(self._stream.rest())

    def _write(self, shown: str) -> None:
        file = terminal_file(sys.stdout)
        file.write(shown)
        file.flush()


class _Guarded:
    """The standard stream as libraries, loggers, tracebacks and modules see it."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        """Write text with its control characters escaped."""
        self.unguarded.write(visible(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write texts one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def guard_streams() -> None:
    """Escape what other code prints too, for the rest of this process."""
    if sys.stdin is not None:
        # Input that is not UTF-8 is replaced instead of ending the command.
        cast("Any", sys.stdin).reconfigure(errors="replace")
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is not None and not isinstance(stream, _Guarded):
            # What the terminal cannot encode is escaped instead of ending the command.
            stream.reconfigure(errors="backslashreplace")
            setattr(sys, name, _Guarded(stream))


def terminal_file(stream: Any) -> TextIO:
    """Return the unguarded stream, for code that draws with its own escape codes."""
    return getattr(stream, "unguarded", stream)


def _in_turn(write: Callable[[], None]) -> None:
    """Write now, or after the open question is closed."""
    if _waiting:
        _waiting[-1].append(write)
    else:
        write()


def _shown(text: str) -> str:
    if os.environ.get("NO_COLOR"):
        return unstyled(text)
    # The pattern has one group, so `split` returns texts and codes alternately.
    parts = _STYLE.split(text)
    for at, part in enumerate(parts):
        parts[at] = f"\x1b[{part}m" if at % 2 else visible(part)
    return "".join(parts)
