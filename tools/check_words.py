"""Fail on words that narrate history, on ownerless promises, on emoji, on names that say nothing.

A name that others depend on is excused in `pyproject.toml` under `[tool.amplifier.words.names]`
with its reason; a path that ends in `/` excuses the folder. Nothing excuses a word.
"""

from __future__ import annotations

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


def check(root: Path) -> list[str]:
    """Return every complaint about the tree under `root`."""
    paths = tracked_files(root)
    complaints = list(bad_names(paths, excused_names(root)))
    for path in paths:
        complaints += bad_words(path, read_text(root / path) or "")
    return complaints


if __name__ == "__main__":
    found = check(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(found) or "words: ok")
    sys.exit(1 if found else 0)
