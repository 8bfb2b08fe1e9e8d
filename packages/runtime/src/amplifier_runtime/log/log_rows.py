"""The rows of the log: each event once, numbered under the fence of its session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from amplifier_runtime.database.database import (
    Connection,
    all_among,
    all_of,
    execute,
    execute_among,
    execute_many,
)
from amplifier_runtime.database.store import to_json
from amplifier_runtime.turns.claims import Claim, check_fence

__all__ = [
    "SUPERSEDED",
    "Head",
    "LogRow",
    "append",
    "first_number",
    "forget_live",
    "open_log",
]

# Names the live events that are void: their run was lost before its result was kept.
SUPERSEDED = "log.superseded"


@dataclass(frozen=True, slots=True)
class LogRow:
    """One row that a run writes; `data` is JSON.

    With a `key` it is an event of the log, written exactly once. Without one it is live: it has a
    `number`, shows the progress of `call`, and is deleted when the turn ends.
    """

    session_id: str
    turn_id: str
    epoch: int
    name: str
    data: str
    key: str = ""
    number: int = 0
    call: str = ""
    # When it happened, by the clock of the database; None for the time of the write.
    at: int | None = None


@dataclass(slots=True)
class Head:
    """The end of a log, its size, and the epoch that may write to it."""

    session_id: str
    epoch: int
    next_seq: int
    row_count: int
    byte_count: int


def first_number(epoch: int) -> int:
    """Return the first number of a run's live events: more than any of the runs before it."""
    return epoch << 32


def open_log(connection: Connection, claim: Claim, is_kept: Callable[[str], bool]) -> None:
    """Open the log for a run inside a transaction, and void the live events of lost runs.

    Raises:
        Fenced: another worker has claimed the session.
    """
    check_fence(connection, claim.session_id, claim.epoch)
    begins = {"session": claim.session_id, "first": first_number(claim.epoch)}
    sql = "INSERT INTO logs (session_id) VALUES (:session) ON CONFLICT DO NOTHING"
    execute(connection, sql, session=claim.session_id)
    shown = all_of(
        connection,
        "SELECT number, call FROM live_events WHERE session_id = :session AND turn_id = :turn "
        "AND number < :first ORDER BY number",
        turn=claim.turn_id,
        **begins,
    )
    lost = _ranges(row["number"] for row in shown if not is_kept(row["call"]))
    sql = "DELETE FROM live_events WHERE session_id = :session AND number < :first"
    execute(connection, sql, **begins)
    if lost:
        marker = LogRow(
            claim.session_id,
            claim.turn_id,
            claim.epoch,
            SUPERSEDED,
            to_json({"turn_id": claim.turn_id, "numbers": lost}),
            key=f"{claim.turn_id}:{SUPERSEDED}:{claim.epoch}",
        )
        append(connection, [marker])


def append(connection: Connection, records: Sequence[LogRow]) -> dict[str, Head]:
    """Write records inside a transaction, and return the new ends of the logs.

    Skips records of a run that was fenced off, and events that are in the log already.
    """
    heads = _hold(connection, {each.session_id for each in records})
    keys = [each.key for each in records if each.key]
    sql = "SELECT key FROM events WHERE key IN :among"
    if keys:
        known = {row["key"] for row in all_among(connection, sql, keys)}
    else:
        known = set[str]()
    durable: list[dict[str, Any]] = []
    live: list[dict[str, Any]] = []
    for record in records:
        head = heads.get(record.session_id)
        if head is None or head.epoch != record.epoch or record.key in known:
            continue
        if record.key:
            known.add(record.key)
            durable.append(_event(record, head))
        else:
            live.append(_live_event(record, head))
    if durable:
        _insert_events(connection, durable)
        _move(connection, heads, durable)
    if live:
        execute_many(connection, _INSERT_LIVE, live)
    return heads


def forget_live(connection: Connection, claim: Claim) -> None:
    """Delete the live events of a turn that ends; the log has their results."""
    sql = "DELETE FROM live_events WHERE session_id = :session AND turn_id = :turn"
    execute(connection, sql, session=claim.session_id, turn=claim.turn_id)


_HEADS = (
    "SELECT s.session_id, s.epoch, l.next_seq, l.row_count, l.byte_count "
    "FROM sessions s JOIN logs l ON l.session_id = s.session_id WHERE s.session_id IN :among"
)
# In the order in which sessions are locked everywhere: that of Python's `sorted`, hence "C". FOR
# SHARE makes a claim of the session, which changes its epoch, wait for this transaction.
_LOCKING = ' ORDER BY s.session_id COLLATE "C" FOR SHARE OF s FOR NO KEY UPDATE OF l'
_INSERT_EVENT = (
    "INSERT INTO events (session_id, seq, turn_id, key, name, data, size, created_at) "
    "VALUES (:session_id, :seq, :turn_id, :key, :name, :data, :size, "
    "COALESCE(CAST(:created_at AS BIGINT), now_ms()))"
)
# Not for a turn that ended while this waited for the lock: its live events are deleted already.
_INSERT_LIVE = (
    "INSERT INTO live_events (session_id, number, after_seq, turn_id, call, name, data, "
    "created_at) SELECT CAST(:session_id AS TEXT), CAST(:number AS BIGINT), "
    "CAST(:after_seq AS BIGINT), CAST(:turn_id AS TEXT), CAST(:call AS TEXT), "
    "CAST(:name AS TEXT), CAST(:data AS TEXT), "
    "COALESCE(CAST(:created_at AS BIGINT), now_ms()) "
    "WHERE NOT EXISTS (SELECT 1 FROM turns WHERE turn_id = :turn_id "
    "AND state IN ('done', 'failed', 'cancelled')) ON CONFLICT DO NOTHING"
)
_MOVE = (
    "UPDATE logs SET next_seq = :next_seq, row_count = :row_count, byte_count = :byte_count, "
    "oldest_at = COALESCE(oldest_at, CAST(:at AS BIGINT), now_ms()) WHERE session_id = :session_id"
)


def _hold(connection: Connection, sessions: set[str]) -> dict[str, Head]:
    """Lock the logs, and their sessions against claims by other workers."""
    if connection.dialect.name == "sqlite":
        # The first write of a transaction locks the whole database.
        sql = "UPDATE logs SET next_seq = next_seq WHERE session_id IN :among"
        execute_among(connection, sql, sessions)
        rows = all_among(connection, _HEADS, sessions)
    else:
        rows = all_among(connection, _HEADS + _LOCKING, sessions)
    return {row["session_id"]: Head(**row) for row in rows}


def _event(record: LogRow, head: Head) -> dict[str, Any]:
    seq = head.next_seq
    head.next_seq += 1
    head.row_count += 1
    head.byte_count += len(record.data)
    return {**_shared(record), "seq": seq, "key": record.key, "size": len(record.data)}


def _live_event(record: LogRow, head: Head) -> dict[str, Any]:
    place = {"after_seq": head.next_seq - 1, "number": record.number, "call": record.call}
    return {**_shared(record), **place}


def _shared(record: LogRow) -> dict[str, Any]:
    return {
        "session_id": record.session_id,
        "turn_id": record.turn_id,
        "name": record.name,
        "data": record.data,
        "created_at": record.at,
    }


def _insert_events(connection: Connection, rows: list[dict[str, Any]]) -> None:
    execute_many(connection, _INSERT_EVENT, rows)


def _move(connection: Connection, heads: dict[str, Head], rows: list[dict[str, Any]]) -> None:
    """Update the ends and sizes of the logs that have grown."""
    oldest = {row["session_id"]: row["created_at"] for row in reversed(rows)}
    moved = [
        {
            "session_id": session_id,
            "next_seq": heads[session_id].next_seq,
            "row_count": heads[session_id].row_count,
            "byte_count": heads[session_id].byte_count,
            "at": at,
        }
        for session_id, at in sorted(oldest.items())
    ]
    execute_many(connection, _MOVE, moved)


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Return the first and last number of each consecutive range."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
