"""Fail on words that narrate history, on ownerless promises, on emoji, on names that say nothing.

Markdown and the strings in source files, docstrings included, are written in plain engineering
English, so a few words have a replacement. Code blocks and inline code are not read, because they
quote a program, nor is the changelog, which is history.

A name that others depend on is excused in `pyproject.toml` under `[tool.amplifier.words.names]`
with its reason; a path that ends in `/` excuses the folder. Nothing excuses a word.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tracked_files import read_text, tracked_files

# A class of one letter keeps a pattern from matching the line that defines it.
WORDS = {
    "history belongs to git": re.compile(
        r"\b(?:phase|task|issue|ticket) #?\d+\b|\bPR #|\bB\d fix\b", re.IGNORECASE
    ),
    "a promise names its owner in brackets, or is kept": re.compile(
        r"\bTO[D]O\b(?!\(\w+\):)|\bFIX[M]E\b|\bXX[X]\b"
    ),
    "no emoji": re.compile(
        "[\U0001f000-\U0001faff\u2600-\u26ff\u2705\u274c\u274e\u2753-\u2757\u2764\ufe0f]"
    ),
}
# Only words that have no ordinary use in these documents: "holds" and "at once" may be right.
PLAIN_WORDS = {
    "the person": "the user",
    "a person": "a user",
    "go on": "continue",
    "goes on": "continues",
    "going on": "continuing",
    "stand-in": "mock",
    "anew": "again",
    "a stranger": "untrusted input",
    "strangers": "untrusted input",
    "corridor": "hook dispatch",
    "the house": "the project",
    "temperament": "behaviour",
    "lies in": "is in",
    "All is well": "No problems found",
    "mend": "fix",
}
# Any white space, because a line may end between two words.
PLAIN_PATTERNS = {
    re.compile(r"\b" + word.replace(" ", r"\s+") + r"\b", re.IGNORECASE): better
    for word, better in PLAIN_WORDS.items()
}
FENCED_BLOCK = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
EMPTY_NAME = re.compile(r"utils|helpers|common|.*_v\d+")


def excused_names(root: Path) -> dict[str, str]:
    """Read `[tool.amplifier.words.names]`: path to reason."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["tool"]["amplifier"]["words"]["names"]


def bad_names(paths: list[Path], excused: dict[str, str]) -> Iterator[str]:
    """Yield every empty name without an excuse, and every excuse without a reason or a use."""
    used: set[str] = set()
    for path in paths:
        for part in (*path.parts[:-1], path.stem):
            if not EMPTY_NAME.fullmatch(part):
                continue
            excuse = next((e for e in excused if f"{path}".startswith(e)), None)
            if excuse is None:
                yield f"{path}: `{part}` does not say what lives there"
            else:
                used.add(excuse)
    for path, reason in excused.items():
        if not reason:
            yield f"{path}: its excuse has no reason"
        if path not in used:
            yield f"{path}: its excuse is not needed"


def bad_words(path: Path, text: str) -> Iterator[str]:
    """Yield every line of one file that holds a forbidden word."""
    for number, line in enumerate(text.splitlines(), start=1):
        for rule, pattern in WORDS.items():
            if match := pattern.search(line):
                yield f"{path}:{number}: `{match[0]}`: {rule}"


def _without_code(text: str) -> str:
    """Blank fenced blocks and inline code, and keep the line ends."""
    for pattern in (FENCED_BLOCK, INLINE_CODE):
        text = pattern.sub(lambda code: "\n" * code[0].count("\n"), text)
    return text


def unusual_words(path: Path, text: str) -> Iterator[str]:
    """Yield every word of a Markdown file, or of a string in source, that has a plainer one."""
    for first_line, prose in _prose_of(path, text):
        for pattern, better in PLAIN_PATTERNS.items():
            for match in pattern.finditer(prose):
                number = first_line + prose.count("\n", 0, match.start())
                found = " ".join(match[0].split())
                yield f"{path}:{number}: `{found}`: say `{better}`"


def _prose_of(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of a file that readers and users see, each with its first line."""
    if path.suffix == ".md":
        yield 1, _without_code(text)
    elif path.suffix == ".py" and "src" in path.parts:
        for node in ast.walk(ast.parse(text, str(path))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, _without_code(node.value)


def check(root: Path) -> list[str]:
    """Return every complaint about the tree under `root`."""
    paths = tracked_files(root)
    complaints = list(bad_names(paths, excused_names(root)))
    for path in paths:
        text = read_text(root / path) or ""
        complaints += bad_words(path, text)
        complaints += unusual_words(path, text)
    return complaints


if __name__ == "__main__":
    found = check(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(found) or "words: ok")
    sys.exit(1 if found else 0)
