"""Every row of the table, with the bar it must not exceed."""

from __future__ import annotations

from dataclasses import dataclass

NOISE_LIMITS = (0.9, 1.1)
"""Bare against bare must stay inside, or the run says nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    `reference` names the bare block the row is divided by; rows that are not a ratio of two
    blocks have none. `original` names the row measured on the original for the same line, None
    when the package index offers nothing to measure. A row without a bar is shown, not judged.
    """

    key: str
    group: str
    title: str
    reference: str | None = None
    bar: float | None = None
    original: str | None = None
    unit: str = "us"


def _emit(handlers: int, bar: float) -> Row:
    key = f"emit-{handlers}"
    plural = "handler" if handlers == 1 else "handlers"
    return Row(key, "emit", f"emit, {handlers} {plural}", key, bar, key)


def _stream(handlers: int, bar: float) -> Row:
    key = f"stream-{handlers}"
    plural = "handler" if handlers == 1 else "handlers"
    return Row(key, "emit", f"streamed token, {handlers} {plural}", key, bar, key)


def _turn(key: str, title: str, bar: float) -> tuple[Row, Row]:
    minimal = f"{key}-minimal"
    return (
        Row(key, "turn", f"{title}, our loop", key, bar, original=minimal),
        Row(minimal, "turn", f"{title}, same minimal loop", key, original=minimal),
    )


def _concurrent(sessions: int, bar: float) -> Row:
    key = f"concurrent-{sessions}"
    title = f"{sessions:,} concurrent sessions, wall / ideal"
    return Row(key, key, title, bar=bar, original=key, unit="x")


ROWS: tuple[Row, ...] = (
    _emit(0, 10),
    _emit(1, 45),
    _emit(10, 80),
    _emit(100, 110),
    # The same emits; a streamed token costs less in bare Python than the event of a tool.
    Row("emit-100kb", "emit", "emit, 100 KB to 1 handler", "emit-1", 45, original="emit-100kb"),
    _stream(0, 25),
    _stream(1, 80),
    Row("mounts", "session", "session with four mounts", "create", 45, original="mounts"),
    Row("initialize", "session", "initialize through loader", "create", 80, original="initialize"),
    Row("initialize-own", "session", "initialize, our loop and context", "create"),
    *_turn("turn", "turn: model, tool, model", 80),
    *_turn("loop50", "50-step tool loop", 100),
    *_turn("history", "turn on 1,000 old messages", 100),
    Row("context", "context", "messages for request at 10,000 / list copy", "copy", 1.5),
    _concurrent(1_000, 1.3),
    _concurrent(10_000, 5),
    Row(
        "memory", "concurrent-10000", "memory per session, KB", bar=18, original="memory", unit="KB"
    ),
    Row("import", "imports", "import, CPU / pydantic", "import", 1.2, original="import", unit="ms"),
    Row(
        "import-plain",
        "imports",
        "import, CPU / BaseModel alone",
        original="import-plain",
        unit="ms",
    ),
)


def select(names: str) -> tuple[Row, ...]:
    """Rows whose key is in the comma-separated `names`, or starts with one of them and a dash.

    Raises:
        ValueError: a name selects nothing.
    """
    if not names:
        return ROWS
    chosen: set[str] = set()
    for name in names.split(","):
        matches = {row.key for row in ROWS if row.key == name or row.key.startswith(f"{name}-")}
        if not matches:
            known = ", ".join(row.key for row in ROWS)
            raise ValueError(f"No row `{name}`. Rows: {known}.")
        chosen |= matches
    return tuple(row for row in ROWS if row.key in chosen)
