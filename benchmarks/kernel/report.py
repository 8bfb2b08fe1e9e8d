"""The table, its verdicts, and the exit code they add up to."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.kernel.bars import NOISE_LIMITS, Row
from benchmarks.kernel.measure import Figure

PASSED, MISSED, VOID = 0, 1, 2
COLUMNS = ("row", "bare", "bare/bare", "original", "ours", "bar", "verdict")


@dataclass(slots=True)
class Results:
    """Figures by system and row, one per round, and the reasons for those that are missing."""

    figures: dict[str, dict[str, list[Figure]]] = field(
        default_factory=dict[str, dict[str, list[Figure]]]
    )
    reasons: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def add(self, system: str, key: str, figure: Figure) -> None:
        self.figures.setdefault(system, {}).setdefault(key, []).append(figure)

    def fail(self, system: str, key: str, reason: str) -> None:
        self.reasons.setdefault(system, {})[key] = reason

    def value(self, system: str, row: Row, key: str | None = None) -> float | None:
        """The best round: a busy machine costs a large program more than a bare loop."""
        values = [each.value for each in self._rounds(system, key or row.key)]
        return min(values, default=None)

    def bare(self, row: Row) -> float | None:
        """What bare Python costs in this row, undisturbed."""
        costs = [
            each.bare
            for system, key in (("ours", row.key), ("bare", row.reference or row.key))
            for each in self._rounds(system, key)
        ]
        return min(costs, default=None)

    def noise(self, row: Row) -> float | None:
        """Bare against bare; None where the row is no ratio of blocks."""
        if row.reference is None:
            return None
        return statistics.median(
            [each.value for each in self._rounds("bare", row.reference)] or [float("nan")]
        )

    def _rounds(self, system: str, key: str) -> list[Figure]:
        return self.figures.get(system, {}).get(key, [])


def verdict(row: Row, results: Results) -> str:
    """What the row comes to; rows without a bar are not judged."""
    noise, ours = results.noise(row), results.value("ours", row)
    if row.bar is None:
        return ""
    if noise is not None and not NOISE_LIMITS[0] <= noise <= NOISE_LIMITS[1]:
        return "void"
    if ours is None:
        return "NOT MEASURED"
    if ours > row.bar:
        return "MISSED"
    return "ok"


def exit_code(rows: tuple[Row, ...], results: Results) -> int:
    """2 when a row is void, else 1 when a bar is missed or not measured, else 0."""
    verdicts = {verdict(row, results) for row in rows}
    if "void" in verdicts:
        return VOID
    return MISSED if verdicts & {"MISSED", "NOT MEASURED"} else PASSED


def render(rows: tuple[Row, ...], results: Results) -> str:
    """The table as aligned text, the reasons for missing figures, and a last line."""
    lines = [COLUMNS, *(_cells(row, results) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    text = [_aligned(line, widths) for line in lines]
    text.insert(1, "-|-".join("-" * width for width in widths))
    return "\n".join([*text, "", *_reasons(results), _summary(rows, results)])


def write_json(path: Path, rows: tuple[Row, ...], results: Results) -> None:
    """Write every figure of every round, and the verdicts."""
    document = {
        "exit_code": exit_code(rows, results),
        "rows": {
            row.key: {
                **asdict(row),
                "noise": results.noise(row),
                "ours": results.value("ours", row),
                "original": _original(row, results),
                "verdict": verdict(row, results),
            }
            for row in rows
        },
        "figures": {
            system: {key: [asdict(each) for each in rounds] for key, rounds in by_row.items()}
            for system, by_row in results.figures.items()
        },
        "reasons": results.reasons,
    }
    path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


def _original(row: Row, results: Results) -> float | None:
    return results.value("original", row, row.original) if row.original else None


def _cells(row: Row, results: Results) -> tuple[str, ...]:
    bare = results.bare(row)
    return (
        row.title,
        "-" if bare is None else f"{_number(bare)} {row.unit}",
        _number(results.noise(row)),
        _number(_original(row, results)),
        _number(results.value("ours", row)),
        _number(row.bar),
        verdict(row, results),
    )


def _aligned(line: tuple[str, ...], widths: list[int]) -> str:
    first, last = line[0].ljust(widths[0]), line[-1]
    middle = [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True)]
    return " | ".join([first, *middle, last])


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if value == int(value) and value < 1000:
        return str(int(value))
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _reasons(results: Results) -> list[str]:
    """One line for each reason, with the rows it kept from a figure."""
    lines: list[str] = []
    for system, reasons in results.reasons.items():
        for reason in dict.fromkeys(reasons.values()):
            keys = ", ".join(key for key, each in reasons.items() if each == reason)
            lines.append(f"No figure for {system}, {keys}: {reason}")
    return [*lines, ""] if lines else []


def _summary(rows: tuple[Row, ...], results: Results) -> str:
    judged = [row for row in rows if row.bar is not None]
    verdicts = [verdict(row, results) for row in judged]
    if "void" in verdicts:
        noisy = ", ".join(
            row.key for row, each in zip(judged, verdicts, strict=True) if each == "void"
        )
        low, high = NOISE_LIMITS
        return (
            f"VOID: bare against bare left {low} to {high} ({noisy}); measure on a calmer machine."
        )
    held = sum(each.startswith("ok") for each in verdicts)
    return f"{held} of {len(judged)} bars hold."
