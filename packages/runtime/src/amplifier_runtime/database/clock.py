"""The runtime's only source of time: the clock of the database, and durations of this process.

No machine's own clock decides anything: clients and workers may disagree by minutes. On SQLite all
processes are on one machine, whose clock is the database's.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

NOW = "now_ms()"
"""What a statement says for the present moment; `in_sql` makes it one that the database knows."""

_NOW_IN = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER)",
    # Constant within a statement, unlike `clock_timestamp()`, so that comparisons can use an index.
    "postgresql": "CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000 AS BIGINT)",
}


def in_sql(sql: str, dialect: str) -> str:
    """Return a statement with `now_ms()` replaced by the database's clock, in milliseconds."""
    return sql.replace(NOW, _NOW_IN[dialect])


def iso(milliseconds: int) -> str:
    """Return a time of the database as ISO 8601 text in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def monotonic() -> float:
    """Return seconds of a clock that never goes back, for measuring durations."""
    return time.monotonic()
