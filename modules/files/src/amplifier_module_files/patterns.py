"""Path patterns: globs, and the rules of a `.gitignore`.

Patterns come from models and from cloned repositories, so matching must not be exponential: it
takes at most the length of the pattern times that of the path. `fnmatch.translate` produces
regular expressions without backtracking, and `PathPattern` backtracks only to the last `**`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST_ALTERNATIVES = 100


class PatternError(Exception):
    """A pattern is not valid; the message says why."""


class PathPattern:
    """A pattern for the parts of a path; `**` matches any number of them."""

    def __init__(self, pattern: str) -> None:
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        if "/" not in pattern:
            parts.insert(0, "**")
        self._wanted = [None if part == "**" else _test(part) for part in parts]

    def matches(self, parts: Sequence[str]) -> bool:
        """Whether the whole path matches."""
        wanted = self._wanted
        at = 0
        part = 0
        # The index of the last `**`, and the first part that it does not cover. Going back to an
        # earlier one is not needed: the last can cover whatever an earlier one could.
        back: tuple[int, int] | None = None
        while part < len(parts):
            test = wanted[at] if at < len(wanted) else _never
            if test is None:
                back = (at, part)
                at = at + 1
            elif test(parts[part]):
                at = at + 1
                part = part + 1
            elif back is not None:
                back = (back[0], back[1] + 1)
                at = back[0] + 1
                part = back[1]
            else:
                return False
        return all(test is None for test in wanted[at:])


def _never(part: str) -> bool:
    return False


def _test(pattern: str) -> Callable[[str], object]:
    is_plain = not any(each in pattern for each in "*?[")
    if is_plain:
        return pattern.__eq__
    return re.compile(fnmatch.translate(pattern)).match


def alternatives(pattern: str) -> list[PathPattern]:
    """Expand the braces of a pattern: `{a,b}` is `a` or `b`."""
    waiting = [pattern]
    ready = list[str]()
    while waiting:
        each = waiting.pop()
        found = _BRACES.search(each)
        if found is None:
            ready.append(each)
            continue
        before = each[: found.start()]
        behind = each[found.end() :]
        waiting += [f"{before}{choice}{behind}" for choice in found[1].split(",")]
        if len(waiting) + len(ready) > _MOST_ALTERNATIVES:
            raise PatternError(f"it stands for more than {_MOST_ALTERNATIVES} others.")
    return [PathPattern(each) for each in ready]


class IgnoreRule(NamedTuple):
    """A line of a `.gitignore` that is `depth` folders below the working folder."""

    pattern: PathPattern
    depth: int
    folders_only: bool
    keeps: bool

    def fits(self, parts: Sequence[str], is_folder: bool) -> bool:
        """Whether it matches a path relative to the working folder."""
        return (is_folder or not self.folders_only) and self.pattern.matches(parts[self.depth :])


def ignore_rules(text: str, depth: int) -> list[IgnoreRule]:
    """Return the rules of a `.gitignore`, the last one first: the first match decides."""
    rules: list[IgnoreRule] = []
    for line in text.splitlines():
        keeps = line.startswith("!")
        path = line.rstrip().removeprefix("!").removeprefix("\\")
        if path.strip("/") and not line.startswith("#"):
            pattern = PathPattern(path.rstrip("/"))
            rules.append(IgnoreRule(pattern, depth, path.endswith("/"), keeps))
    return rules[::-1]
