"""A run of chaos as a row of a Markdown table, to be kept beside others."""

from __future__ import annotations

from typing import Any

__all__ = ["COLUMNS", "row", "table"]

# The title of each column, and the figure that it shows.
COLUMNS = {
    "seed": "seed",
    "turns": "turns",
    "kills": "kills",
    "pauses": "pauses",
    "database restarts": "database restarts",
    "runs lost": "runs lost in a crash",
    "take-over p50, s": "take-over p50, s",
    "take-over p99, s": "take-over p99, s",
    "outcomes unknown": "outcome unknown",
    "seconds": "duration, s",
    "wrong": "wrong",
}


def row(cells: list[Any]) -> str:
    """Return cells as a line of a table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def table(figures: dict[str, Any]) -> list[str]:
    """Return the lines of a table with one run in it."""
    return [
        row(list(COLUMNS)),
        f"|{'---|' * len(COLUMNS)}",
        row([figures[name] for name in COLUMNS.values()]),
    ]
