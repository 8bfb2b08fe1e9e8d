"""Commands that read a device, a pipe or a table of the kernel, which may have no end."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from amplifier_sandbox.own.command_lines import UnreadableLineError, Word, read_commands

# A device may be named in the middle of a word: `--file=/dev/zero`, `-f/dev/zero`.
_NAMED = re.compile(r"/(?:dev|proc|sys)(?:/(?!null(?![\w./-]))|$)")


def objection_to_special_files(line: str, workspace: Path) -> str | None:
    """Return why a command line is to be asked about whatever the rules allow, else None.

    This is for the question only. A link that is made later, or a name that bash puts together,
    is not seen here; what such a command can use up is limited by the sandbox.
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
