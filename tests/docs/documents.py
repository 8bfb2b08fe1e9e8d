"""The documents of this repository and the fenced blocks in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    "packages/*/README.md",
    "packages/*/src/*/*/README.md",
    "modules/**/*.md",
)
FENCE = re.compile(r"^( *)(`{3,})(\w*)[^\n]*\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!-- (no-run|file):(.*?)-->\s*\Z")


@dataclass(frozen=True)
class Block:
    """One fenced block: where it starts, what it is written in, and the comment before it."""

    line: int
    language: str
    text: str
    comment: str = ""
    argument: str = ""


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a document in order."""
    for match in FENCE.finditer(text):
        indent, _, language, body = match.groups()
        lines = [line.removeprefix(indent) for line in body.splitlines(keepends=True)]
        before = COMMENT.search(text, 0, match.start())
        comment, argument = before.groups() if before else ("", "")
        line = text.count("\n", 0, match.start(4)) + 1
        yield Block(line, language, "".join(lines), comment, argument.strip())


def documents() -> list[str]:
    """Return the path of every document, from the top of the repository."""
    found = (path for pattern in DOCUMENTS for path in ROOT.glob(pattern))
    return sorted(str(path.relative_to(ROOT)) for path in found)
