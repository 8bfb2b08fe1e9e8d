"""The keys of rows: random ids, and the keys of sessions.

Ids of sessions are chosen by tenants and unique per tenant. The key of a session's rows is its id,
or a random one if another tenant's session has that key. No API returns a key.
"""

from __future__ import annotations

import uuid

from amplifier_runtime.database.database import Connection, Row, execute, one_of

__all__ = ["NAME", "find_session", "insert_session", "name_of", "new_id"]

NAME = "COALESCE(name, session_id)"
"""What a tenant calls a session, in SQL; the index of sessions is on this expression."""

# One statement in both cases: neither the result nor the time it takes shows a tenant that another
# one has a session of the same id.
_INSERT = (
    "INSERT INTO sessions (session_id, name, tenant_id, parent_id, plan, created_at) "
    "SELECT CASE WHEN taken.is_so THEN CAST(:random AS TEXT) ELSE CAST(:name AS TEXT) END, "
    "CASE WHEN taken.is_so THEN CAST(:name AS TEXT) END, CAST(:tenant AS TEXT), "
    "CAST(:parent AS TEXT), CAST(:plan AS TEXT), now_ms() "
    "FROM (SELECT EXISTS (SELECT 1 FROM sessions WHERE session_id = :name) AS is_so) taken "
    "WHERE 1 = 1 ON CONFLICT DO NOTHING"
)


def new_id(kind: str) -> str:
    """Return a random id, prefixed with what it is the id of."""
    return f"{kind}-{uuid.uuid4().hex}"


def find_session(connection: Connection, tenant_id: str, name: str) -> Row | None:
    """Return the row of a tenant's session inside a transaction, with `session_name`, or None."""
    sql = (
        f"SELECT *, {NAME} AS session_name FROM sessions "
        f"WHERE tenant_id = :tenant AND {NAME} = :name"
    )
    return one_of(connection, sql, tenant=tenant_id, name=name)


def insert_session(
    connection: Connection, tenant_id: str, name: str, plan: str, parent_name: str | None
) -> str:
    """Insert a session inside a transaction, unless the tenant has one of this id; returns its key.

    `plan` is JSON.
    """
    # If another tenant takes the key at the same moment, the first insert does nothing.
    for _ in range(2):
        values = {"random": new_id("session"), "plan": plan, "parent": parent_name}
        execute(connection, _INSERT, name=name, tenant=tenant_id, **values)
        row = find_session(connection, tenant_id, name)
        if row is not None:
            return row["session_id"]
    raise AssertionError("the key of a new session was taken twice")


def name_of(connection: Connection, key: str) -> str:
    """Return the id by which a tenant knows the session of a key."""
    sql = f"SELECT {NAME} AS session_name FROM sessions WHERE session_id = :key"
    row = one_of(connection, sql, key=key)
    assert row is not None
    return row["session_name"]
