"""Reading a command line, as far as it says plainly what it runs.

This is not a shell. It reads lists and pipelines of plain words; whatever else bash would expand,
substitute, define or redirect makes a line one that no rule can match. It takes one pass over the
text, whatever the text is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_LINE = 16_000
"""Characters; a longer line is not read, so that reading takes well under a tenth of a second."""

_TOKEN = re.compile(
    r"""
      (?P<blank>     [ \t]+ )
    | (?P<end>       && | \|\| | [;&|\n] )
    | (?P<redirect>  [0-9]*>&[12](?![^\s;&|]) | [0-9]*(?:>>?|<)[ \t]*/dev/null(?![^\s;&|]) )
    | (?P<bare>      [A-Za-z0-9_./:,+@%^=-]+ )
    | (?P<glob>      [*?\[\]~]+ )
    | '(?P<single>   [^']* )'
    | "(?P<double>   [^"`$\\]* )"
    """,
    re.VERBOSE,
)
_PIECES = frozenset({"bare", "glob", "single", "double"})
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]{1,200}")
_RESERVED = re.compile(
    r"case|coproc|do|done|elif|else|esac|fi|for|function|if|in|select|then|time|until|while"
)
# What makes later words mean something else.
_REBINDING = re.compile(
    r"\.|alias|builtin|command|declare|enable|eval|exec|export|getopts|hash|let|local|mapfile|printf"
    r"|read|readarray|readonly|set|shopt|source|trap|typeset|unalias|unset"
)


class UnreadableLineError(ValueError):
    """A command line that does not say plainly what it runs; the message says where."""


@dataclass(frozen=True, slots=True)
class Word:
    """One argument as the program will get it; `is_pattern` when bash may put file names there."""

    text: str
    is_pattern: bool = False


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program and its arguments."""

    program: str
    args: tuple[Word, ...] = ()


def read_commands(line: str) -> list[SimpleCommand]:
    """Return every command of `line`.

    Raises:
        UnreadableLineError: the line is more than plain commands.
    """
    if len(line) > LONGEST_LINE:
        raise UnreadableLineError(f"it is longer than {LONGEST_LINE} characters")
    commands: list[SimpleCommand] = []
    words: list[Word] = []
    pieces: list[tuple[str, str]] = []
    position = 0
    while position < len(line):
        token = _TOKEN.match(line, position)
        if token is None or token.lastgroup is None:
            raise UnreadableLineError(f"{line[position]!r} can stand for anything")
        kind = token.lastgroup
        text = token[token.lastgroup]
        position = token.end()
        if kind in _PIECES:
            pieces.append((kind, text))
            continue
        if pieces and kind == "redirect" and text[0].isdigit():
            raise UnreadableLineError(f"in {text!r} the number may belong to the word before it")
        _end_word(pieces, words)
        if kind == "end":
            _end_command(words, commands)
    _end_word(pieces, words)
    _end_command(words, commands)
    return commands


def _end_word(pieces: list[tuple[str, str]], words: list[Word]) -> None:
    if not pieces:
        return
    if not words and (len(pieces) > 1 or pieces[0][0] != "bare"):
        raise UnreadableLineError("a program is not named by one plain word")
    is_pattern = any(kind == "glob" for kind, _ in pieces)
    words.append(Word("".join(text for _, text in pieces), is_pattern))
    pieces.clear()


def _end_command(words: list[Word], commands: list[SimpleCommand]) -> None:
    if not words:
        return
    program = words[0].text
    is_special = _RESERVED.fullmatch(program) or _REBINDING.fullmatch(program)
    if is_special or not _PROGRAM.fullmatch(program):
        raise UnreadableLineError(f"`{program[:80]}` is more than a program")
    commands.append(SimpleCommand(program, tuple(words[1:])))
    words.clear()
