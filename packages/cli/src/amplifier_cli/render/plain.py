"""Format text, numbers, times and sizes for a terminal."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

from amplifier_sandbox.visible_text import visible

# Escape sequences that programs use for colours and cursor movement: CSI, OSC and two-byte ones.
_ESCAPE_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_=>]"
)
_BLANKS = re.compile(r"\s+")


def program_output(text: str) -> str:
    """Return a program's output without colours; of a progress bar, only its last state."""
    bare = _ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n")
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in bare.split("\n"))
    return visible("\n".join(lines))


def one_line(text: str) -> str:
    """Return text with every run of whitespace as one space."""
    return visible(_BLANKS.sub(" ", text).strip())


def message_of(error: Any) -> str:
    """Return the message of an error of a tool or a turn, which may be a text or a mapping."""
    if not isinstance(error, dict):
        return str(error)
    fields = cast("dict[str, Any]", error)
    # A tool says `message`, and an event of the kernel `msg`.
    names = ("message", "msg", "error")
    return str(next((fields[name] for name in names if fields.get(name)), fields))


def duration(seconds: float) -> str:
    """Return a duration, such as `2m05s`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3_600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3_600}h{whole % 3_600 // 60:02}m"


def count(number: int) -> str:
    """Return a number of tokens in about three digits."""
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
    """Return dollars with two digits; amounts below ten cents with four."""
    if amount == 0 or amount >= Decimal("0.1"):
        return f"${amount:.2f}"
    return f"${amount:.4f}"


def cost_text(known: Decimal | None, unpriced_calls: int = 0) -> str:
    """Return the cost in words; empty if no model was called.

    `known` is the sum of the known costs. Only a known price of zero is shown as free.
    """
    # An unknown price is never shown as 0: readers would take it for free.
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
    """Return a number with its noun: `1 session`, `2 sessions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def lines_of(text: str) -> str:
    """Return how many lines a text has, in words."""
    if text.strip():
        number = len(text.rstrip("\n").split("\n"))
    else:
        number = 0
    if number == 0:
        return "no output"
    return counted(number, "line")


_UNITS = ((60, "s"), (60, "min"), (24, "h"), (7, "d"), (52, "w"))


def age(at: str) -> str:
    """Return how long ago a recorded time was, in its largest unit; empty if it is not valid."""
    try:
        passed = (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
    except (TypeError, ValueError):
        return ""
    amount = max(passed, 0)
    for step, unit in _UNITS:
        if amount < step:
            return f"{int(amount)} {unit}"
        amount /= step
    return f"{int(amount)} y"


def local_time(at: str) -> str:
    """Return a recorded time in the user's time zone; unchanged if it is not valid."""
    try:
        return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M:%S}"
    except (TypeError, ValueError):
        return at


def took(seconds: float) -> str:
    """Return a duration; below a second in milliseconds."""
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    return duration(seconds)


def size(count: float) -> str:
    """Return a number of bytes in about three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1_000:
            if unit == "B" or count >= 10:
                return f"{count:.0f} {unit}"
            return f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} TB"
