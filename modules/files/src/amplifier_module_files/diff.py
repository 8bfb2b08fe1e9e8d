"""Diffs of bounded length between two contents of a file."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import accumulate, takewhile

_CONTEXT = 3
_MOST_CHARS = 12_000
_LONGEST_LINE = 500
# SequenceMatcher takes quadratic time; beyond this many changed lines only counts are reported.
_MOST_COMPARED = 2_000


def change_text(name: str, old: bytes | None, new: bytes) -> str:
    """Return the description of a change for the model, with its diff."""
    if new == old:
        return f"[{name}: already as asked, {len(new):,} bytes]"
    verb = "created" if old is None else "changed"
    return f"[{name}: {verb}, {len(new):,} bytes]\n{difference(old, new)}"


def difference(before: bytes | None, after: bytes | None) -> str:
    """Return the diff between two contents of a file; None means no file."""
    try:
        old = (before or b"").decode()
        new = (after or b"").decode()
    except UnicodeDecodeError:
        return f"[{len(before or b'')} bytes are now {len(after or b'')} bytes]"
    return unified(old, new)


def unified(before: str, after: str) -> str:
    """Return a unified diff without file names; the middle of a long one is cut out."""
    # Equal lines at both ends are skipped first, so that a small change in a large file is cheap.
    old = before.split("\n")
    new = after.split("\n")
    start = _equal(old, new)
    end = min(_equal(old[::-1], new[::-1]), min(len(old), len(new)) - start)
    removed = len(old) - start - end
    added = len(new) - start - end
    if max(removed, added) > _MOST_COMPARED:
        return f"[{removed} lines from line {start + 1} on are now {added} lines]"
    skipped = max(start - _CONTEXT, 0)
    lines = list(_hunks(old, new, skipped, max(end - _CONTEXT, 0)))
    head = _fitting(lines)
    tail = _fitting(lines[::-1])[::-1]
    if len(head) + len(tail) < len(lines):
        cut = f"[{len(lines) - len(head) - len(tail)} more lines of this diff]"
        lines = [*head, cut, *tail]
    return "\n".join(lines)


def _fitting(lines: list[str]) -> list[str]:
    """Return the first lines that fit into half of the limit."""
    ends = accumulate(len(line) + 1 for line in lines)
    return [line for line, end in zip(lines, ends, strict=True) if end <= _MOST_CHARS // 2]


def _equal(left: list[str], right: list[str]) -> int:
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _hunks(old: list[str], new: list[str], skipped: int, left_out: int) -> Iterator[str]:
    window = old[skipped : len(old) - left_out]
    counterpart = new[skipped : len(new) - left_out]
    matcher = SequenceMatcher(None, window, counterpart)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        _, old_from, _, new_from, _ = group[0]
        _, _, old_to, _, new_to = group[-1]
        old_span = f"{skipped + old_from + 1},{old_to - old_from}"
        yield f"@@ -{old_span} +{skipped + new_from + 1},{new_to - new_from} @@"
        for tag, first, last, other_first, other_last in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in window[first:last])
            else:
                yield from (_line("-", line) for line in window[first:last])
                yield from (_line("+", line) for line in counterpart[other_first:other_last])


def _line(sign: str, line: str) -> str:
    if len(line) > _LONGEST_LINE:
        line = f"{line[:_LONGEST_LINE]} [{len(line) - _LONGEST_LINE} more characters]"
    return sign + line.removesuffix("\r")
