"""How much of a log is kept: its oldest events go first, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from amplifier_runtime.database.database import (
    Connection,
    Database,
    Row,
    all_of,
    execute,
    one_of,
    read_now,
)
from amplifier_runtime.log.event_rows import Head

__all__ = ["LogLimits", "is_too_large", "sweep_log", "trim_log"]

_BATCH = 1_000
# Cut to less than what is allowed, so that the next event is not one too many again.
_LEFT = 0.9
_DAY_MS = 24 * 60 * 60 * 1000
_IS_OPEN = (
    "turn_id IN (SELECT turn_id FROM turns WHERE session_id = :session "
    "AND state IN ('waiting', 'ready', 'running', 'parked'))"
)


@dataclass(frozen=True, slots=True)
class LogLimits:
    """What a log may hold; live events do not count.

    An event that is larger is cut to size and says so. From a log that is larger, or older, the
    oldest events are deleted; a reader who has not had them gets a marker.
    """

    event_bytes: int = 64 * 1024
    session_rows: int = 100_000
    session_bytes: int = 64 * 1024 * 1024
    days: float | None = 30.0


def is_too_large(head: Head, limits: LogLimits) -> bool:
    """Whether a log is larger than it may be."""
    return head.row_count > limits.session_rows or head.byte_count > limits.session_bytes


async def trim_log(database: Database, session_id: str, limits: LogLimits) -> int:
    """Delete what is too much or too old of one log; returns how many events that were."""
    gone = 0
    while True:
        batch = await database.run(partial(_trim_batch, session_id=session_id, limits=limits))
        gone += batch
        if batch < _BATCH:
            return gone


async def sweep_log(database: Database, limits: LogLimits) -> int:
    """Delete what is too old of all logs, and what ended turns have left behind."""

    def old(connection: Connection) -> list[str]:
        execute(
            connection,
            "DELETE FROM live_events WHERE NOT EXISTS (SELECT 1 FROM turns "
            "WHERE turns.turn_id = live_events.turn_id "
            "AND turns.state IN ('waiting', 'ready', 'running', 'parked'))",
        )
        sql = "SELECT session_id FROM logs WHERE oldest_at < :before LIMIT :batch"
        rows = all_of(connection, sql, before=_oldest_kept(connection, limits), batch=_BATCH)
        return [row["session_id"] for row in rows]

    gone = 0
    while sessions := await database.run(old):
        for session_id in sessions:
            gone += await trim_log(database, session_id, limits)
        if len(sessions) < _BATCH:
            break
    return gone


def _oldest_kept(connection: Connection, limits: LogLimits) -> int:
    if limits.days is None:
        return 0
    return read_now(connection) - int(limits.days * _DAY_MS)


def _trim_batch(connection: Connection, session_id: str, limits: LogLimits) -> int:
    head = one_of(
        connection,
        "UPDATE logs SET next_seq = next_seq WHERE session_id = :session "
        "RETURNING row_count, byte_count",
        session=session_id,
    )
    if head is None:
        return 0
    # What was cut off while its turn could still run again has done its service.
    sql = f"DELETE FROM events WHERE session_id = :session AND size = 0 AND NOT {_IS_OPEN}"
    execute(connection, sql, session=session_id)
    oldest = all_of(
        connection,
        "SELECT seq, size, created_at FROM events WHERE session_id = :session AND size > 0 "
        "ORDER BY seq LIMIT :batch",
        session=session_id,
        batch=_BATCH,
    )
    rows, size = _too_many(oldest, head, limits, _oldest_kept(connection, limits))
    if rows:
        _cut(connection, session_id, oldest[rows - 1]["seq"])
    execute(
        connection,
        "UPDATE logs SET row_count = row_count - :rows, byte_count = byte_count - :size, "
        "oldest_at = (SELECT created_at FROM events WHERE session_id = :session AND size > 0 "
        "ORDER BY seq LIMIT 1) WHERE session_id = :session",
        session=session_id,
        rows=rows,
        size=size,
    )
    return rows


def _too_many(oldest: Sequence[Row], head: Row, limits: LogLimits, before: int) -> tuple[int, int]:
    """Return how many of the oldest events have to go, and how large they are."""
    left_rows = head["row_count"]
    left_bytes = head["byte_count"]
    is_over = left_rows > limits.session_rows or left_bytes > limits.session_bytes
    most_rows = _LEFT * limits.session_rows
    most_bytes = _LEFT * limits.session_bytes
    rows = 0
    size = 0
    for row in oldest:
        is_much = is_over and (left_rows - rows > most_rows or left_bytes - size > most_bytes)
        if not is_much and row["created_at"] >= before:
            break
        rows = rows + 1
        size = size + row["size"]
    return rows, size


def _cut(connection: Connection, session_id: str, last: int) -> None:
    """Delete the events up to `last`; of a turn that may run again, all but the keys."""
    which = {"session": session_id, "last": last}
    sql = "DELETE FROM events WHERE session_id = :session AND seq <= :last AND NOT "
    execute(connection, sql + _IS_OPEN, **which)
    execute(
        connection,
        "UPDATE events SET data = '', size = 0 WHERE session_id = :session AND seq <= :last "
        "AND size > 0",
        **which,
    )
