"""Diffs of bounded length between two contents of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def whole_difference(before: bytes | None, after: bytes) -> str | None:
    """Return a diff that leaves nothing out, for a user to decide about.

    None for bytes that are not text, and for changes that take too long to compare.
    """
    try:
        old = (before or b"").decode()
        new = after.decode()
    except UnicodeDecodeError:
        return None
    if _has_only_crlf(old) and _has_only_crlf(new):
        # Not the line ends that all lines have; any other is shown.
        old = old.replace("\r\n", "\n")
        new = new.replace("\r\n", "\n")
    if not old:
        added = new.removesuffix("\n").split("\n") if new else []
        return "\n".join([f"@@ -0,0 +1,{len(added)} @@", *(f"+{line}" for line in added)])
    change = _Change(old, new)
    if change.is_huge:
        return None
    return "\n".join(change.hunks(lambda sign, line: sign + line))


def unified(before: str, after: str) -> str:
    """Return a unified diff without file names; the middle of a long one is cut out."""
    change = _Change(before, after)
    if change.is_huge:
        start = change.start + 1
        return f"[{change.removed} lines from line {start} on are now {change.added} lines]"
    lines = list(change.hunks(_line))
    head = _fitting(lines)
    tail = _fitting(lines[::-1])[::-1]
    if len(head) + len(tail) < len(lines):
        cut = f"[{len(lines) - len(head) - len(tail)} more lines of this diff]"
        lines = [*head, cut, *tail]
    return "\n".join(lines)


class _Change:
    """The part of two texts that differs.

    Equal lines at both ends are skipped first, so that a small change in a large file is cheap.
    """

    def __init__(self, before: str, after: str) -> None:
        self._old = _lines(before, after)
        self._new = _lines(after, before)
        shorter = min(len(self._old), len(self._new))
        self.start = _equal(self._old, self._new)
        self._end = min(_equal(self._old[::-1], self._new[::-1]), shorter - self.start)
        self.removed = len(self._old) - self.start - self._end
        self.added = len(self._new) - self.start - self._end

    @property
    def is_huge(self) -> bool:
        """Whether a comparison line by line would take too long."""
        return max(self.removed, self.added) > _MOST_COMPARED

    def hunks(self, shown: Callable[[str, str], str]) -> Iterator[str]:
        """Yield the lines of the diff; `shown` makes one from its sign and its text."""
        skipped = max(self.start - _CONTEXT, 0)
        left_out = max(self._end - _CONTEXT, 0)
        old = self._old[skipped : len(self._old) - left_out]
        new = self._new[skipped : len(self._new) - left_out]
        for group in SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT):
            _, old_from, _, new_from, _ = group[0]
            _, _, old_to, _, new_to = group[-1]
            old_span = _span(skipped + old_from, old_to - old_from)
            yield f"@@ -{old_span} +{_span(skipped + new_from, new_to - new_from)} @@"
            for tag, first, last, other_first, other_last in group:
                if tag == "equal":
                    yield from (shown(" ", line) for line in old[first:last])
                else:
                    yield from (shown("-", line) for line in old[first:last])
                    yield from (shown("+", line) for line in new[other_first:other_last])


def _lines(text: str, other: str) -> list[str]:
    # An empty text has the empty line behind the last line end of the other, if that has one.
    return text.split("\n") if text or other.endswith("\n") else []


def _span(skipped: int, count: int) -> str:
    return f"{skipped + 1 if count else skipped},{count}"


def _fitting(lines: list[str]) -> list[str]:
    """Return the first lines that fit into half of the limit."""
    ends = accumulate(len(line) + 1 for line in lines)
    return [line for line, end in zip(lines, ends, strict=True) if end <= _MOST_CHARS // 2]


def _equal(left: list[str], right: list[str]) -> int:
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _line(sign: str, line: str) -> str:
    if len(line) > _LONGEST_LINE:
        line = f"{line[:_LONGEST_LINE]} [{len(line) - _LONGEST_LINE} more characters]"
    return sign + line.removesuffix("\r")


def _has_only_crlf(text: str) -> bool:
    return text.count("\r\n") == text.count("\n")
