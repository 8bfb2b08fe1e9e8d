"""Finds the commands that messages offer as the next step, in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What stands for a value that a message fills in: a number, because some are.
VALUE = "1"
# Where a value is an option: what it can be.
FILLED = {
    "options": "--origin https://example.org:8443",
    "allow": "--allow bash",
    "mode": "--mode edits",
    "what": "files",
}
# Prose after a command begins with a parenthesis, a backtick or two spaces.
COMMAND = re.compile(r"amplifier [a-z-]+(?: ?[^\s`()])*")
# The kernel knows no command line; a string there begins with the name of the project.
KERNEL = ROOT / "packages/core"


def template_of(node: ast.expr) -> str | None:
    """Return the text of a string in the source, with values filled in, or None."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr():
            return "".join(_part(each) for each in node.values)
        case ast.BinOp(left=left, right=right):
            return (template_of(left) or VALUE) + (template_of(right) or VALUE)
        case _:
            return None


def _part(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=value):
            return FILLED.get(ast.unparse(value), VALUE)
        case _:
            return VALUE


def commands_in(source: str) -> Iterator[str]:
    """Yield each `amplifier ...` in a next step, or at the beginning of a string."""
    yield from _commands(ast.parse(source), is_next=False)


def _commands(node: ast.AST, *, is_next: bool) -> Iterator[str]:
    text = template_of(node) if isinstance(node, ast.expr) else None
    if text is not None:
        if is_next or text.startswith("amplifier "):
            yield from (found.strip() for found in COMMAND.findall(text))
        return
    for child in ast.iter_child_nodes(node):
        yield from _commands(child, is_next=isinstance(node, ast.keyword) and node.arg == "fix")


def all_commands() -> list[str]:
    files = [*ROOT.glob("packages/*/src/**/*.py"), *ROOT.glob("modules/*/src/**/*.py")]
    ours = [path for path in files if not path.is_relative_to(KERNEL)]
    return sorted({each for path in ours for each in commands_in(path.read_text("utf-8"))})
