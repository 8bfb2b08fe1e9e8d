"""Times as a person reads them in a list."""

from __future__ import annotations

from datetime import UTC, datetime

from amplifier_cli.render.plain import duration

__all__ = ["age", "local_time", "size", "took"]

_UNITS = ((60, "s"), (60, "min"), (24, "h"), (7, "d"), (52, "w"))


def age(at: str) -> str:
    """Return how long ago a recorded time was, in its largest unit; empty when it is none."""
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
    """Return a recorded time in the person's own zone; as it is when it is no time."""
    try:
        return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M:%S}"
    except (TypeError, ValueError):
        return at


def took(seconds: float) -> str:
    """Return a length of time; below a second in milliseconds."""
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    return duration(seconds)


def size(count: float) -> str:
    """Return a number of bytes in three digits or so."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1_000:
            if unit == "B" or count >= 10:
                return f"{count:.0f} {unit}"
            return f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} TB"
