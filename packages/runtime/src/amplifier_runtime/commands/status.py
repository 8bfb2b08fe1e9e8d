"""The output of `amplifier runtime status`, as lines of a label and a text."""

from __future__ import annotations

import json
from collections.abc import Iterator

from amplifier_foundation.store.session_store import SessionStore
from amplifier_runtime.commands.address import shown
from amplifier_runtime.database.database import Connection, Database, Row, all_of, one_of
from amplifier_runtime.database.migrate import check_schema, pending
from amplifier_runtime.database.row_keys import NAME
from amplifier_runtime.errors import SchemaError
from amplifier_runtime.worker.liveness import has_worker
from amplifier_sandbox.home import amplifier_home

__all__ = ["Lines", "describe", "describe_session"]

Lines = list[tuple[str, str]]

_SHOWN_TURNS = 20
_START = "start one with `amplifier worker`"


async def describe(database: Database) -> Lines:
    """Return the state of the database, its workers and its turns."""
    lines: Lines = [("database", shown(database.url))]
    todo = await pending(database)
    if todo:
        names = ", ".join(each.name for each in todo)
        return [*lines, ("schema", f"lacks {names}: run `amplifier runtime migrate`")]
    try:
        await check_schema(database)
    except SchemaError as error:
        return [*lines, ("schema", str(error))]
    return [*lines, ("schema", "up to date"), *await database.run(_whole)]


async def describe_session(database: Database, session_id: str) -> Lines:
    """Return whether a session is durable, and its turns if it is."""
    if not await pending(database):
        found = await database.run(lambda connection: _session(connection, session_id))
        if found:
            return found
    in_files = SessionStore(amplifier_home()).find(session_id)
    why = "it is kept in files by `amplifier run`, and a turn of it ends with its process"
    return [("session", in_files), ("durable", f"no: {why}")]


def _whole(connection: Connection) -> Lines:
    return [
        *_workers(connection),
        *_sessions(connection),
        *_turns(connection),
        *_stuck(connection),
    ]


def _workers(connection: Connection) -> Iterator[tuple[str, str]]:
    rows = all_of(
        connection,
        "SELECT w.*, now_ms() - w.beat_at AS silent_ms, "
        "(SELECT COUNT(*) FROM turns t WHERE t.worker_id = w.worker_id "
        "AND t.state = 'running') AS running FROM workers w "
        "WHERE w.state IN ('alive', 'draining') ORDER BY w.started_at",
    )
    if not rows:
        yield "workers", f"none: durable turns wait; {_START}"
    for row in rows:
        seconds = row["silent_ms"] / 1000
        yield (
            "worker",
            f"{row['worker_id']} at {row['address']}, {row['state']}, code {row['code_version']}, "
            f"{row['running']} of {row['concurrency']} turns, last beat {seconds:.1f} s ago",
        )


def _sessions(connection: Connection) -> Iterator[tuple[str, str]]:
    row = one_of(connection, "SELECT COUNT(*) AS number FROM sessions")
    assert row is not None
    yield "sessions", f"{row['number']}, durable: all; those of `amplifier run` are not here"


def _turns(connection: Connection) -> Iterator[tuple[str, str]]:
    rows = all_of(
        connection, "SELECT state, COUNT(*) AS number FROM turns GROUP BY state ORDER BY state"
    )
    yield "turns", ", ".join(f"{row['number']} {row['state']}" for row in rows) or "none"


def _stuck(connection: Connection) -> Iterator[tuple[str, str]]:
    """Return the turns that will not run without an operator."""
    sql = (
        "SELECT t.turn_id, COALESCE(s.name, s.session_id) AS session_name, t.crashes FROM turns t "
        "JOIN sessions s ON s.session_id = t.session_id WHERE t.state = 'parked' "
        "AND t.reason = 'crashed' ORDER BY t.submitted_at LIMIT :most"
    )
    for row in all_of(connection, sql, most=_SHOWN_TURNS):
        yield (
            "crashed",
            f"{row['turn_id']} of session {row['session_name']}: {row['crashes']} of its workers "
            f"died; `amplifier runtime requeue {row['turn_id']}` lets it run again",
        )
    yield from _without_worker(connection)


def _without_worker(connection: Connection) -> Iterator[tuple[str, str]]:
    """Return the turns begun by a version that no living worker is or accepts."""
    workers = "SELECT code_version, accepts FROM workers WHERE state = 'alive'"
    runnable: set[str] = set()
    for row in all_of(connection, workers):
        runnable |= {row["code_version"], *json.loads(row["accepts"])}
    begun = (
        "SELECT code_version, COUNT(*) AS number FROM turns WHERE state = 'ready' "
        "AND code_version IS NOT NULL GROUP BY code_version ORDER BY code_version"
    )
    for row in all_of(connection, begun):
        version = row["code_version"]
        if version in runnable:
            continue
        yield (
            "waiting",
            f"{row['number']} turns begun by code {version}, which no living worker accepts; one "
            f"that can continue them says so: `amplifier worker --accepts {version}`",
        )


def _session(connection: Connection, session_id: str) -> Lines:
    """Return the sessions with this id, one for each tenant that has one."""
    sql = f"SELECT session_id, tenant_id FROM sessions WHERE {NAME} = :name ORDER BY tenant_id"
    rows = all_of(connection, sql, name=session_id)
    return [line for row in rows for line in _of_tenant(connection, session_id, row)]


def _of_tenant(connection: Connection, session_id: str, row: Row) -> Lines:
    if has_worker(connection):
        durable = "yes"
    else:
        durable = f"yes, but no worker runs its turns: {_START}"
    turns = all_of(
        connection,
        "SELECT * FROM turns WHERE session_id = :session ORDER BY ordinal DESC LIMIT :most",
        session=row["session_id"],
        most=_SHOWN_TURNS,
    )
    lines: Lines = [("session", f"{session_id} of tenant {row['tenant_id']}"), ("durable", durable)]
    return [*lines, *(("turn", _turn(each)) for each in reversed(turns))]


def _turn(row: Row) -> str:
    runs = f", run {row['runs']} times" if row["runs"] > 1 else ""
    reason = f" ({row['reason']})" if row["reason"] else ""
    return f"{row['turn_id']} {row['state']}{reason}{runs}"
