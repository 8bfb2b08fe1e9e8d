"""Parsing the command lines that say plainly what they run.

This is not a shell. It reads lists and pipelines of plain words. A line with anything else that
bash would expand, substitute, define or redirect is rejected, and no rule matches it. Parsing takes
one pass over the text, whatever the text is.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from pathlib import Path

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
    # Between these quotes, bash leaves a backslash alone unless one of five characters follows.
    | "(?P<double>   (?:[^"`$\\]|\\[^"`$\\\n])* )"
    """,
    re.VERBOSE,
)
_PIECES = frozenset({"bare", "glob", "single", "double"})
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]{1,200}")
_RESERVED = re.compile(
    r"case|coproc|do|done|elif|else|esac|fi|for|function|if|in|select|then|time|until|while"
)
# Builtins that can change what later words mean, or run words as a command.
_REBINDING = re.compile(
    r"\.|alias|builtin|command|declare|enable|eval|exec|export|getopts|hash|let|local|mapfile|printf"
    r"|read|readarray|readonly|set|shopt|source|trap|typeset|unalias|unset"
)


class UnreadableLineError(ValueError):
    """A command line that does not say plainly what it runs; the message names the obstacle."""


@dataclass(frozen=True, slots=True)
class Word:
    """One argument as the program will get it; with `is_pattern`, bash may insert file names."""

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


def read_one_command(line: str) -> SimpleCommand:
    """Return the command of `line`, which has no other one, no pipe and no redirection.

    Raises:
        UnreadableLineError: it is more than that.
    """
    commands = read_commands(line)
    # Every character is part of a token now, or `read_commands` would have raised.
    kinds = {token.lastgroup for token in _TOKEN.finditer(line)}
    if len(commands) != 1 or kinds & {"end", "redirect"}:
        raise UnreadableLineError("it is more than one command")
    return commands[0]


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


# A device may be named in the middle of a word: `--file=/dev/zero`, `-f/dev/zero`.
_NAMED = re.compile(r"/(?:dev|proc|sys)(?:/(?!null(?![\w./-]))|$)")


def objection_to_special_files(line: str, workspace: Path) -> str | None:
    """Return why the user has to be asked about a command line whatever the rules allow, or None.

    This is not a protection: a link that is made later, or a name that bash puts together, is not
    found here. The sandbox limits what such a command can use up.
    """
    try:
        commands = read_commands(line)
    except UnreadableLineError:
        if _NAMED.search(line):
            return "it may read a device"
        return None
    for command in commands:
        for word in command.args:
            if _may_be_special(word, workspace):
                return f"`{word.text[:80]}` may be a device or a pipe"
    return None


def _may_be_special(word: Word, workspace: Path) -> bool:
    if _NAMED.search(word.text):
        return True
    if word.is_pattern:
        return word.text.startswith("/")
    try:
        mode = (workspace / word.text).stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or word.text == "/dev/null")
