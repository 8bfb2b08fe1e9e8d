"""The tables that clients use: tenants, sessions, their messages and their turns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from amplifier_foundation.plan_shape import checked_plan
from amplifier_kit.texts import text_of_prompt
from amplifier_kit.valid_text import valid, valid_text
from amplifier_runtime.database.database import (
    Connection,
    Database,
    Row,
    all_among,
    all_of,
    execute,
    one_of,
)
from amplifier_runtime.database.plan_references import refuse_clear_keys
from amplifier_runtime.database.row_keys import NAME, find_session, insert_session, new_id
from amplifier_runtime.errors import IdempotencyError, NotFoundError, SessionBusyError

__all__ = ["FINISHED", "OPEN", "Session", "Store", "Turn", "from_json", "to_json", "wake_turn"]

# waiting: queued after another turn of its session; ready: may be claimed; parked: awaits a signal.
OPEN = ("waiting", "ready", "running", "parked")
FINISHED = ("done", "failed", "cancelled")
_IS_OPEN = "state IN ('waiting', 'ready', 'running', 'parked')"


def to_json(value: Any) -> str:
    """Return JSON in ASCII: it has no character that a database refuses."""
    return json.dumps(value, separators=(",", ":"), default=str)


def from_json(text: str) -> Any:
    """Return the value that `to_json` wrote; invalid text of older versions is replaced."""
    value: Any = json.loads(text)
    if "\\u" in text:
        return valid(value)
    return value


@dataclass(frozen=True, slots=True)
class Session:
    """A session between turns."""

    session_id: str
    tenant_id: str
    parent_id: str | None
    plan: dict[str, Any]
    state: dict[str, Any]
    epoch: int
    turn_count: int

    @classmethod
    def from_row(cls, row: Row) -> Session:
        """Read a row of `sessions`."""
        given: dict[str, Any] = {name: row[name] for name in cls.__slots__}
        given["session_id"] = row["session_name"]
        given["plan"] = from_json(row["plan"])
        given["state"] = from_json(row["state"])
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn in its present state; `error` has `type` and `message`.

    `details` has what was given with its text: `content`, `output_schema`, `metadata`,
    `trace_context`.
    """

    turn_id: str
    tenant_id: str
    session_id: str
    ordinal: int
    idempotency_key: str
    parent_turn_id: str | None
    prompt: str
    state: str
    reason: str | None
    answer: str | None
    error: dict[str, Any] | None
    worker_id: str | None
    epoch: int
    runs: int
    crashes: int
    signals: int
    submitted_at: int
    started_at: int | None
    finished_at: int | None
    details: dict[str, Any]

    @classmethod
    def from_row(cls, row: Row, session_id: str) -> Turn:
        """Read a row of `turns`; `session_id` is the id by which the tenant knows its session."""
        given: dict[str, Any] = {name: row[name] for name in cls.__slots__}
        given["session_id"] = session_id
        given["error"] = None if row["error"] is None else from_json(row["error"])
        given["details"] = from_json(row["details"])
        return cls(**given)

    @property
    def is_finished(self) -> bool:
        """Whether the turn has its final state."""
        return self.state in FINISHED


class Store:
    """The tables of one database. Rows of other tenants are not found."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def create_tenant(
        self, tenant_id: str, *, weight: float = 1.0, max_running: int | None = None
    ) -> None:
        """Create a tenant, or change its share of the workers."""

        def work(connection: Connection) -> None:
            execute(
                connection,
                "INSERT INTO tenants (tenant_id, weight, max_running, created_at) "
                "VALUES (:tenant, :weight, :most, now_ms()) ON CONFLICT (tenant_id) DO UPDATE "
                "SET weight = excluded.weight, max_running = excluded.max_running",
                tenant=tenant_id,
                weight=weight,
                most=max_running,
            )

        await self.database.run(work)

    async def create_session(
        self,
        tenant_id: str,
        session_id: str,
        plan: dict[str, Any],
        *,
        parent_id: str | None = None,
    ) -> Session:
        """Create a session, and its tenant if there is none; an existing session stays unchanged.

        Tenants may use the same id for sessions of their own.

        Raises:
            NotFoundError: there is no such parent.
            PlanError: the plan is malformed.
            ClearKeyError: the plan has a key in clear.
        """

        def work(connection: Connection) -> None:
            if parent_id is not None:
                own_session(connection, tenant_id, parent_id)
            if find_session(connection, tenant_id, session_id) is not None:
                return
            # Only for a new session: an existing one keeps its plan, whatever comes with the call.
            checked = checked_plan(plan)
            refuse_clear_keys(checked)
            execute(
                connection,
                "INSERT INTO tenants (tenant_id, created_at) VALUES (:tenant, now_ms()) "
                "ON CONFLICT DO NOTHING",
                tenant=tenant_id,
            )
            insert_session(connection, tenant_id, session_id, to_json(checked), parent_id)

        await self.database.run(work)
        return await self.session(tenant_id, session_id)

    async def session(self, tenant_id: str, session_id: str) -> Session:
        """Return a session."""

        def work(connection: Connection) -> Row:
            return own_session(connection, tenant_id, session_id)

        return Session.from_row(await self.database.run(work))

    async def session_key(self, tenant_id: str, session_id: str) -> str:
        """Return the key of a session's rows, which must not leave this package."""

        def work(connection: Connection) -> str:
            return own_session(connection, tenant_id, session_id)["session_id"]

        return await self.database.run(work)

    async def messages(self, tenant_id: str, session_id: str) -> list[dict[str, Any]]:
        """Return the history as of the end of the last turn."""

        def work(connection: Connection) -> list[dict[str, Any]]:
            key = own_session(connection, tenant_id, session_id)["session_id"]
            return read_messages(connection, key)

        return await self.database.run(work)

    async def submit(
        self,
        tenant_id: str,
        session_id: str,
        prompt: str | list[dict[str, Any]],
        *,
        idempotency_key: str,
        parent_turn_id: str | None = None,
        output_schema: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        trace_context: dict[str, str] | None = None,
    ) -> Turn:
        """Append a turn to its session's queue; the same key returns the same turn.

        Raises:
            NotFoundError: there is no such session, or no such parent.
            IdempotencyError: the key was used for another prompt.
        """
        text = valid_text(text_of_prompt(prompt))
        given = {
            "content": None if isinstance(prompt, str) else valid(prompt),
            "output_schema": output_schema,
            "metadata": metadata,
            "trace_context": trace_context or None,
        }
        details = {name: value for name, value in given.items() if value is not None}

        def work(connection: Connection) -> Row:
            if parent_turn_id is not None:
                own_turn(connection, tenant_id, parent_turn_id)
            return submit_turn(
                connection,
                tenant_id,
                session_id,
                text,
                idempotency_key,
                parent_turn_id,
                to_json(details),
            )

        turn = Turn.from_row(await self.database.run(work), session_id)
        if turn.prompt != text or turn.details.get("content") != details.get("content"):
            raise IdempotencyError(idempotency_key, turn.turn_id)
        return turn

    async def update_session(self, tenant_id: str, session_id: str, plan: dict[str, Any]) -> None:
        """Give a session another plan, which holds from its next turn on.

        Raises:
            NotFoundError: there is no such session.
            SessionBusyError: it has a turn that is not finished, which has begun with its plan.
            PlanError, ClearKeyError: as for `create_session`.
        """
        checked = checked_plan(plan)
        refuse_clear_keys(checked)

        def work(connection: Connection) -> None:
            key = _own_idle_session(connection, tenant_id, session_id)
            sql = "UPDATE sessions SET plan = :plan WHERE session_id = :session"
            execute(connection, sql, plan=to_json(checked), session=key)

        await self.database.run(work)

    async def session_ids(self, tenant_id: str, *, limit: int = 100, offset: int = 0) -> list[str]:
        """Return the ids of a tenant's sessions, the latest first; children are not listed."""

        def work(connection: Connection) -> list[str]:
            rows = all_of(
                connection,
                f"SELECT {NAME} AS name FROM sessions WHERE tenant_id = :tenant "
                "AND parent_id IS NULL ORDER BY created_at DESC, session_id "
                "LIMIT :limit OFFSET :offset",
                tenant=tenant_id,
                limit=limit,
                offset=offset,
            )
            return [row["name"] for row in rows]

        return await self.database.run(work)

    async def delete_session(self, tenant_id: str, session_id: str) -> None:
        """Delete a session and its children: messages, turns, questions and log.

        What they spent stays charged. The engine's journal of their turns is swept with the others.

        Raises:
            NotFoundError: there is no such session.
            SessionBusyError: it or a child has a turn that is not finished.
        """

        def work(connection: Connection) -> None:
            _delete_tree(connection, tenant_id, session_id)

        await self.database.run(work)

    async def turn(self, tenant_id: str, turn_id: str) -> Turn:
        """Return a turn."""

        def work(connection: Connection) -> Row:
            return own_turn(connection, tenant_id, turn_id)

        row = await self.database.run(work)
        return Turn.from_row(row, row["session_name"])

    async def turns(self, tenant_id: str, session_id: str) -> list[Turn]:
        """Return the turns of a session, in order."""

        def work(connection: Connection) -> list[Turn]:
            key = own_session(connection, tenant_id, session_id)["session_id"]
            sql = "SELECT * FROM turns WHERE session_id = :session ORDER BY ordinal"
            return [Turn.from_row(row, session_id) for row in all_of(connection, sql, session=key)]

        return await self.database.run(work)


def own_session(connection: Connection, tenant_id: str, session_id: str) -> Row:
    """Return a tenant's session inside a transaction, or raise NotFoundError.

    In the row, `session_id` is the key of its rows and `session_name` the id given.
    """
    row = find_session(connection, tenant_id, session_id)
    if row is None:
        raise NotFoundError("session", session_id)
    return row


def _own_idle_session(connection: Connection, tenant_id: str, session_id: str) -> str:
    """Lock a tenant's session inside a transaction and return its key; raises if it is busy."""
    key: str = own_session(connection, tenant_id, session_id)["session_id"]
    hold_session(connection, key)
    sql = f"SELECT 1 FROM turns WHERE session_id = :session AND {_IS_OPEN} LIMIT 1"
    if one_of(connection, sql, session=key) is not None:
        raise SessionBusyError(session_id)
    return key


# By key of the session, those that refer to others first.
_DELETIONS = (
    "DELETE FROM holds WHERE turn_id IN (SELECT turn_id FROM turns WHERE session_id = :session)",
    "DELETE FROM children WHERE session_id = :session OR parent_session_id = :session "
    "OR root_id = :session",
    "DELETE FROM trees WHERE root_id = :session",
    "DELETE FROM approvals WHERE session_id = :session",
    "DELETE FROM steers WHERE session_id = :session",
    "DELETE FROM live_events WHERE session_id = :session",
    "DELETE FROM events WHERE session_id = :session",
    "DELETE FROM logs WHERE session_id = :session",
    "DELETE FROM messages WHERE session_id = :session",
    "DELETE FROM turns WHERE session_id = :session",
    "DELETE FROM sessions WHERE session_id = :session",
)


def _delete_tree(connection: Connection, tenant_id: str, session_id: str) -> None:
    """Delete a session inside a transaction, after its children."""
    key = _own_idle_session(connection, tenant_id, session_id)
    sql = f"SELECT {NAME} AS name FROM sessions WHERE tenant_id = :tenant AND parent_id = :parent"
    for row in all_of(connection, sql, tenant=tenant_id, parent=session_id):
        _delete_tree(connection, tenant_id, row["name"])
    for each in _DELETIONS:
        execute(connection, each, session=key)


def own_turn(connection: Connection, tenant_id: str, turn_id: str) -> Row:
    """Return a tenant's turn inside a transaction, or raise NotFoundError."""
    sql = (
        "SELECT t.*, COALESCE(s.name, s.session_id) AS session_name FROM turns t "
        "JOIN sessions s ON s.session_id = t.session_id "
        "WHERE t.turn_id = :turn AND t.tenant_id = :tenant"
    )
    row = one_of(connection, sql, turn=turn_id, tenant=tenant_id)
    if row is None:
        raise NotFoundError("turn", turn_id)
    return row


def finished_among(connection: Connection, turn_ids: list[str]) -> list[str]:
    """Return those of the given turns that are finished, inside a transaction."""
    sql = "SELECT turn_id FROM turns WHERE turn_id IN :among AND finished_at IS NOT NULL"
    return [row["turn_id"] for row in all_among(connection, sql, turn_ids)]


def hold_session(connection: Connection, session_id: str) -> None:
    """Lock a session, its turns and their questions for the rest of this transaction."""
    # An update, because SQLite has no SELECT FOR UPDATE.
    sql = "UPDATE sessions SET epoch = epoch WHERE session_id = :session"
    execute(connection, sql, session=session_id)


def submit_turn(
    connection: Connection,
    tenant_id: str,
    session_id: str,
    prompt: str,
    idempotency_key: str,
    parent_turn_id: str | None = None,
    details: str = "{}",
) -> Row:
    """Insert a turn inside a transaction, or return the one that has its key.

    `details` is JSON.

    Raises:
        NotFoundError: there is no such session.
    """
    # Counted before it is known whether the turn is new: the same statement locks the session.
    row = one_of(
        connection,
        "UPDATE sessions SET turn_count = turn_count + 1 "
        f"WHERE tenant_id = :tenant AND {NAME} = :session RETURNING turn_count, session_id",
        session=session_id,
        tenant=tenant_id,
    )
    if row is None:
        raise NotFoundError("session", session_id)
    key = row["session_id"]
    # The update locks the session's row: no turn of it is added or finished meanwhile.
    turn = one_of(
        connection,
        "INSERT INTO turns (turn_id, tenant_id, session_id, ordinal, idempotency_key, "
        "parent_turn_id, prompt, details, ready_at, submitted_at, state) "
        "SELECT CAST(:turn AS TEXT), CAST(:tenant AS TEXT), CAST(:session AS TEXT), "
        "CAST(:ordinal AS BIGINT), CAST(:key AS TEXT), CAST(:parent AS TEXT), "
        "CAST(:prompt AS TEXT), CAST(:details AS TEXT), now_ms(), now_ms(), "
        f"CASE WHEN EXISTS (SELECT 1 FROM turns WHERE session_id = :session AND {_IS_OPEN}) "
        "THEN 'waiting' ELSE 'ready' END ON CONFLICT DO NOTHING RETURNING *",
        turn=new_id("turn"),
        tenant=tenant_id,
        session=key,
        ordinal=row["turn_count"],
        key=idempotency_key,
        parent=parent_turn_id,
        prompt=prompt,
        details=details,
    )
    return turn or _turn_of_before(connection, key, idempotency_key)


def wake_turn(connection: Connection, turn_id: str) -> None:
    """Count a signal for a turn inside a transaction, and make it ready if it is parked.

    A turn that is about to park sees that the count has grown, and is made ready instead. One that
    crashed too often stays parked: only an operator makes it ready again.
    """
    sql = "UPDATE turns SET signals = signals + 1 WHERE turn_id = :turn"
    execute(connection, sql, turn=turn_id)
    sql = (
        "UPDATE turns SET state = 'ready', reason = NULL "
        "WHERE turn_id = :turn AND state = 'parked' AND reason <> 'crashed'"
    )
    execute(connection, sql, turn=turn_id)


def read_messages(connection: Connection, session_id: str) -> list[dict[str, Any]]:
    """Return a session's history inside a transaction."""
    sql = "SELECT message FROM messages WHERE session_id = :session ORDER BY position"
    return [from_json(row["message"]) for row in all_of(connection, sql, session=session_id)]


def _turn_of_before(connection: Connection, session_id: str, key: str) -> Row:
    """Return the existing turn of this key, and undo the increment of the turn count."""
    sql = "UPDATE sessions SET turn_count = turn_count - 1 WHERE session_id = :session"
    execute(connection, sql, session=session_id)
    sql = "SELECT * FROM turns WHERE session_id = :session AND idempotency_key = :key"
    turn = one_of(connection, sql, session=session_id, key=key)
    assert turn is not None
    return turn
