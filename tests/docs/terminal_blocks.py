"""What a document shows on a terminal is what comes when it is typed.

The `console` blocks of one document are typed into one shell, in an empty folder of a user
without keys. A line that begins with `$ ` is a command, one with `> ` continues it, and what
follows is what it prints, or nothing where that is left out; a line `...` stands for any lines.
A command must succeed, unless the next one is `echo $?`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from docs.documents import ROOT, blocks, documents

_MARK = "-- done: "
_SECONDS = 240
_PROGRAMS = Path(sys.executable).parent
# What differs from run to run, and the words that stand for it in a comparison.
_CHANGING = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{8}\b"), "SESSION"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "HASH"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T][\d:.]+Z?"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|min|kB)(?!\w)"), "AMOUNT"),
    (re.compile(r"\b[\d.,]+k? (tokens|characters|out)\b"), r"N \1"),
    (re.compile(r"█+"), "BAR"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass
class Command:
    """One command of a document: its line, its text, and what is shown below it."""

    line: int
    text: str
    shown: list[str] = field(default_factory=list[str])


def commands_of(text: str) -> list[Command]:
    """Return everything that a document types, in order."""
    found: list[Command] = []
    for block in blocks(text):
        if block.language == "console" and block.comment != "no-run":
            found += _typed(block.text, block.line)
    return found


def _typed(text: str, first: int) -> Iterator[Command]:
    command: Command | None = None
    for number, line in enumerate(text.splitlines(), start=first):
        if line.startswith("$ "):
            if command is not None:
                yield command
            command = Command(number, line[2:])
        elif command is None:
            raise ValueError(f"line {number} shows output of no command")
        elif (line == ">" or line.startswith("> ")) and not command.shown:
            command.text += f"\n{line[2:]}"
        elif line or command.shown:
            command.shown.append(line)
    if command is not None:
        yield command


def complaints(
    document: str, commands: list[Command], folder: Path, programs: Path = _PROGRAMS
) -> list[str]:
    """Type all commands into one shell, and return what came otherwise than it is shown.

    `programs` is the folder of the command `amplifier`, and of the Python it is installed in.
    """
    found: list[str] = []
    followers = [*(each.text for each in commands[1:]), ""]
    printed = _printed(commands, folder, programs)
    for command, follower, (output, code) in zip(commands, followers, printed, strict=True):
        where = f"{document}:{command.line}: {command.text.splitlines()[0]}"
        if code and not follower.startswith("echo $?"):
            found.append(f"{where}: exit code {code}\n{output}")
        elif command.shown and not _fits(_plain(output, folder), _plain_lines(command.shown)):
            lines = [*_plain(output, folder), "and not", *command.shown]
            found.append("\n".join([f"{where}: printed", *lines]))
    return found


def _printed(commands: list[Command], folder: Path, programs: Path) -> list[tuple[str, int]]:
    """Return the output and the exit code of each command."""
    project = folder / "todo"
    project.mkdir()
    # The shell hands on each exit code as if it had not been looked at.
    mark = f'\ncode=$?; echo "{_MARK}$code"; (exit $code)\n'
    script = "".join(f"{each.text}{mark}" for each in commands)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=project,
        env={
            "HOME": str(folder),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "100",
            "PYTHONUTF8": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=_SECONDS,
        check=False,
    ).stdout
    parts = re.split(rf"^{_MARK}(\d+)\n", done, flags=re.MULTILINE)
    return [(output, int(code)) for output, code in zip(parts[::2], parts[1::2], strict=False)]


def _plain(output: str, folder: Path) -> list[str]:
    return _plain_lines(output.replace(str(folder), "~").splitlines())


def _plain_lines(lines: list[str]) -> list[str]:
    plain: list[str] = []
    for line in lines:
        for pattern, word in _CHANGING:
            line = pattern.sub(word, line)
        plain.append(line.strip())
    while plain and not plain[-1]:
        plain.pop()
    return plain


def _fits(lines: list[str], shown: list[str]) -> bool:
    parts = (r"(.*\n)*?" if each == "..." else re.escape(each) + r"\n" for each in shown)
    return re.fullmatch("".join(parts), "".join(f"{each}\n" for each in lines)) is not None


def documents_with_commands() -> list[str]:
    """Return the documents that show something on a terminal."""
    texts = {each: (ROOT / each).read_text(encoding="utf-8") for each in documents()}
    return [each for each, text in texts.items() if commands_of(text)]
