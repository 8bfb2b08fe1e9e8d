"""Reads and forks the logs of durable sessions, in the form of all other logs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import Any

from amplifier_journal.memory import MemoryLog
from amplifier_journal.readings.state import SessionState, state_of
from amplifier_journal.records import SCHEMA, Record
from amplifier_kit.history_repair import repair_history
from amplifier_runtime.database.database import (
    Connection,
    Database,
    Row,
    all_among,
    all_of,
    execute,
    execute_many,
    one_of,
)
from amplifier_runtime.database.row_keys import find_session, insert_session, new_id
from amplifier_runtime.database.store import own_session, to_json
from amplifier_runtime.errors import ForkError
from amplifier_runtime.log.reader import GONE, LogReader, record_in
from amplifier_runtime.log.run_log import part_key

__all__ = ["follow_log", "fork_session", "read_log"]

_ROWS = (
    "SELECT seq, turn_id, key, name, data, size, created_at FROM events "
    "WHERE session_id = :session AND size > 0 ORDER BY seq"
)
_STATUS = {"done": "completed"}


async def read_log(database: Database, tenant_id: str, session_id: str) -> MemoryLog:
    """Return the log of a session as written so far, with the metadata for session lists.

    Raises:
        NotFoundError: there is no such session.
    """
    return await database.run(partial(_read, tenant_id=tenant_id, session_id=session_id))


async def follow_log(
    database: Database, tenant_id: str, session_id: str, *, after: int = 0
) -> AsyncGenerator[Record]:
    """Yield the records of a session after number `after`, and then each as it is written.

    Raises:
        NotFoundError: there is no such session.
    """
    entries = LogReader(database).tail(tenant_id, session_id, after=str(after))
    async with aclosing(entries):
        async for entry in entries:
            if not entry.is_live:
                yield Record(SCHEMA, entry.seq, _time(entry.at), entry.kind, entry.data)


def _read(connection: Connection, tenant_id: str, session_id: str) -> MemoryLog:
    session = own_session(connection, tenant_id, session_id)
    rows = all_of(connection, _ROWS, session=session["session_id"])
    records = [_record(row) for row in rows]
    if records and records[0].seq > 1:
        last = records[0].seq - 1
        records.insert(0, Record(SCHEMA, last, "", GONE, {"first": 1, "last": last}))
    log = MemoryLog(session_id, _metadata(connection, session, records))
    log.written = records
    return log


def _record(row: Row) -> Record:
    kind, data = record_in(row["name"], json.loads(row["data"]))
    return Record(SCHEMA, row["seq"], _time(row["created_at"]), kind, data)


def _metadata(connection: Connection, session: Row, records: list[Record]) -> dict[str, Any]:
    state = state_of(records)
    sql = "SELECT state FROM turns WHERE session_id = :session ORDER BY ordinal DESC LIMIT 1"
    last = one_of(connection, sql, session=session["session_id"])
    if last is None:
        status = "new"
    else:
        status = _STATUS.get(last["state"], last["state"])
    is_priced = state.cost_usd is not None and not state.unpriced_calls
    return {
        "title": state.first_prompt,
        "turns": session["turn_count"],
        "status": status,
        "cost_usd": str(state.cost_usd) if is_priced else None,
        "created_at": _time(session["created_at"]),
        "parent_id": session["parent_id"],
    }


def _time(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="microseconds")[:-6] + "Z"


# --- forks ---------------------------------------------------------------------------------------


async def fork_session(
    database: Database,
    tenant_id: str,
    session_id: str,
    *,
    at: int | None = None,
    new_name: str | None = None,
) -> str:
    """Create a session with another's records up to number `at`, and return its id.

    It has the turns that had begun by then, and continues like any other session. A turn of which
    only a part is copied counts as cancelled.

    Raises:
        NotFoundError: there is no such session.
        ForkError: the log lacks the records that the session began with, there is no prompt up to
            number `at`, or there is a session `new_name` already.
    """
    name = new_name or new_id("session")
    turns: defaultdict[str, str] = defaultdict(partial(new_id, "turn"))
    work = partial(_fork, tenant_id=tenant_id, session_id=session_id, at=at, name=name, turns=turns)
    await database.run(work)
    return name


def _fork(
    connection: Connection,
    tenant_id: str,
    session_id: str,
    at: int | None,
    name: str,
    turns: defaultdict[str, str],
) -> None:
    """Write the fork; `turns` are the new ids by the old ones, the same when this is retried."""
    source = own_session(connection, tenant_id, session_id)
    existing = find_session(connection, tenant_id, name)
    if existing is not None:
        if _has_turn(connection, existing["session_id"], list(turns.values())):
            # Written before, by a commit whose confirmation was lost.
            return
        raise ForkError(f"There is a session `{name}` already.")
    kept = _records_to_copy(connection, source, session_id, at)
    key = insert_session(connection, tenant_id, name, source["plan"], source["parent_id"])
    state = state_of(_record(row) for row in kept)
    # A cut may leave tool calls without their results, which providers refuse.
    messages, repairs = repair_history(state.messages)
    added: list[tuple[str, dict[str, Any]]] = [("fork", {"from": session_id, "at": at})]
    if repairs:
        added.append(("messages", {"messages": messages, "reason": "repair", "turn": state.turns}))
    _copy_turns(connection, source["session_id"], key, state, kept, turns)
    _copy_records(connection, key, kept, turns, added)
    _set_history(connection, key, messages, state.values, turns[kept[-1]["turn_id"]])


def _has_turn(connection: Connection, key: str, turn_ids: list[str]) -> bool:
    if not turn_ids:
        # PostgreSQL has no type for an empty list.
        return False
    sql = "SELECT session_id FROM turns WHERE turn_id IN :among"
    return any(row["session_id"] == key for row in all_among(connection, sql, turn_ids))


def _records_to_copy(
    connection: Connection, source: Row, session_id: str, at: int | None
) -> list[Row]:
    """Return the records up to number `at`, without the opening of a turn not yet begun."""
    rows = all_of(connection, _ROWS, session=source["session_id"])
    kept = [row for row in rows if at is None or row["seq"] <= at]
    if at is not None and rows and at > rows[-1]["seq"]:
        raise ForkError(f"Session `{session_id}` has {rows[-1]['seq']} records, and no {at}.")
    if not kept or kept[0]["seq"] > 1:
        raise ForkError(f"The log of session `{session_id}` does not begin with its first record.")
    if kept[0]["name"] != "session.opened":
        raise ForkError(f"The log of session `{session_id}` was begun by an earlier version.")
    begun = {row["turn_id"] for row in kept if row["name"] == "prompt"}
    if not begun:
        raise ForkError(
            f"Record {kept[-1]['seq']} of session `{session_id}` is before its first prompt. "
            "Fork it at a later one."
        )
    # Other records of a turn are written before its prompt.
    while kept[-1]["turn_id"] not in begun:
        kept.pop()
    return kept


def _copy_turns(
    connection: Connection,
    source: str,
    key: str,
    state: SessionState,
    kept: list[Row],
    turns: defaultdict[str, str],
) -> None:
    """Copy the turns that the records belong to, under their new ids."""
    ended = {row["turn_id"] for row in kept if row["name"] == "turn.ended"}
    sql = "SELECT * FROM turns WHERE session_id = :session AND ordinal <= :last ORDER BY ordinal"
    for turn in all_of(connection, sql, session=source, last=state.turns):
        is_whole = turn["turn_id"] in ended
        execute(
            connection,
            "INSERT INTO turns (turn_id, tenant_id, session_id, ordinal, idempotency_key, prompt, "
            "state, answer, error, ready_at, submitted_at, started_at, finished_at) VALUES "
            "(:turn, :tenant, :session, :ordinal, :key, :prompt, :state, :answer, :error, "
            ":submitted, :submitted, :started, COALESCE(CAST(:finished AS BIGINT), now_ms()))",
            turn=turns[turn["turn_id"]],
            tenant=turn["tenant_id"],
            session=key,
            ordinal=turn["ordinal"],
            key=turn["idempotency_key"],
            prompt=turn["prompt"],
            state=turn["state"] if is_whole else "cancelled",
            answer=turn["answer"] if is_whole else None,
            error=turn["error"] if is_whole else None,
            submitted=turn["submitted_at"],
            started=turn["started_at"],
            finished=turn["finished_at"] if is_whole else None,
        )
    sql = "UPDATE sessions SET turn_count = :turns WHERE session_id = :session"
    execute(connection, sql, session=key, turns=state.turns)


def _copy_records(
    connection: Connection,
    key: str,
    kept: list[Row],
    turns: dict[str, str],
    added: list[tuple[str, dict[str, Any]]],
) -> None:
    last = kept[-1]
    copies = [{**row, **_own(row, key, turns)} for row in kept]
    for number, (kind, data) in enumerate(added, last["seq"] + 1):
        text = to_json(data)
        row = {**copies[-1], "seq": number, "name": kind, "data": text, "size": len(text)}
        copies.append({**row, "key": f"{row['turn_id']}:{kind}:{number}"})
    execute_many(
        connection,
        "INSERT INTO events (session_id, seq, turn_id, key, name, data, size, created_at) "
        "VALUES (:session_id, :seq, :turn_id, :key, :name, :data, :size, :created_at)",
        copies,
    )
    execute(
        connection,
        "INSERT INTO logs (session_id, next_seq, row_count, byte_count, oldest_at) "
        "VALUES (:session, :next, :rows, :bytes, :oldest)",
        session=key,
        next=copies[-1]["seq"] + 1,
        rows=len(copies),
        bytes=sum(each["size"] for each in copies),
        oldest=kept[0]["created_at"],
    )


def _own(row: Row, key: str, turns: dict[str, str]) -> dict[str, Any]:
    """Return the columns that differ in the copy of a row: the keys contain ids."""
    if row["name"] == "part":
        own = part_key(key, json.loads(row["data"])["digest"])
    else:
        own = row["key"].replace(row["turn_id"], turns[row["turn_id"]], 1)
    return {"session_id": key, "turn_id": turns[row["turn_id"]], "key": own}


def _set_history(
    connection: Connection,
    key: str,
    messages: list[dict[str, Any]],
    values: dict[str, Any],
    last_turn: str,
) -> None:
    """Store the messages and the state that the copied records add up to."""
    rows = [
        {"session": key, "position": position, "turn": last_turn, "message": to_json(message)}
        for position, message in enumerate(messages)
    ]
    if rows:
        execute_many(
            connection,
            "INSERT INTO messages (session_id, position, turn_id, message) "
            "VALUES (:session, :position, :turn, :message)",
            rows,
        )
    sql = "UPDATE sessions SET state = :state WHERE session_id = :session"
    execute(connection, sql, session=key, state=to_json(values))
