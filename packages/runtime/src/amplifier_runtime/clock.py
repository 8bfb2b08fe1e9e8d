"""The runtime's only source of time."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Return the wall clock in milliseconds; for people and for delays, never for liveness."""
    return time.time_ns() // 1_000_000


def iso(milliseconds: int) -> str:
    """Return a time of the wall clock as text that says its zone."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def monotonic() -> float:
    """Return seconds that only ever grow; what durations are measured with."""
    return time.monotonic()
