"""Text that is safe to show, and numbers that are easy to read."""

from __future__ import annotations

import re
from decimal import Decimal

from amplifier_sandbox.visible_text import visible

# What programs write to colour their output or move about in it: CSI, OSC and two-byte sequences.
_ESCAPE_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_=>]"
)
_BLANKS = re.compile(r"\s+")


def program_output(text: str) -> str:
    """Return what a program wrote, without its colours; progress bars end as they last stood."""
    bare = _ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n")
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in bare.split("\n"))
    return visible("\n".join(lines))


def one_line(text: str) -> str:
    """Return text with every run of blanks as one space."""
    return visible(_BLANKS.sub(" ", text).strip())


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3_600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3_600}h{whole % 3_600 // 60:02}m"


def count(number: int) -> str:
    """Return a number of tokens in three digits or so."""
    if number < 1_000:
        return str(number)
    for limit, unit in ((1_000_000, "k"), (1_000_000_000, "M")):
        if number < limit:
            value = number / (limit / 1_000)
            if value < 10 and number % (limit // 1_000):
                return f"{value:.1f}{unit}"
            return f"{value:.0f}{unit}"
    return f"{number / 1_000_000_000:.1f}G"


def money(amount: Decimal) -> str:
    """Return dollars; cents to the point, fractions of a cent only where there are no cents."""
    if amount == 0 or amount >= Decimal("0.1"):
        return f"${amount:.2f}"
    return f"${amount:.4f}"


def cost_text(known: Decimal | None, unpriced_calls: int = 0) -> str:
    """Return what was spent, in words; empty when no model was called.

    `known` is the sum of the known costs. Nothing but a known price of zero is free.
    """
    if unpriced_calls:
        if known is None:
            return "cost unknown"
        return f"at least {money(known)}"
    if known is None:
        return ""
    if known == 0:
        return "free"
    return money(known)


def counted(number: int, noun: str) -> str:
    """Return a number of things, in words: `1 session`, `2 sessions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def lines_of(text: str) -> str:
    """Return how many lines a text has, in words."""
    number = len(text.rstrip("\n").split("\n")) if text.strip() else 0
    if number == 0:
        return "no output"
    return counted(number, "line")
