"""Questions to a user, as rows: each is open until one thing decides it, once and for all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from amplifier_runtime.database.database import Connection, Row, all_of, execute, one_of
from amplifier_runtime.database.store import hold_session, wake_turn
from amplifier_runtime.errors import NotFoundError

__all__ = [
    "APPROVALS",
    "Approval",
    "answer_approval",
    "expire_approval",
    "open_approvals",
    "overdue_approvals",
    "read_approval",
    "withdraw_approvals",
]


APPROVALS = (
    "SELECT a.*, COALESCE(s.name, s.session_id) AS session_name "
    "FROM approvals a JOIN sessions s ON s.session_id = a.session_id"
)


@dataclass(frozen=True, slots=True)
class Approval:
    """A question; `state` is open, answered, expired or withdrawn. Times are milliseconds."""

    approval_id: str
    session_id: str
    turn_id: str
    prompt: str
    options: list[str]
    state: str
    answer: str | None
    answered_by: str | None
    asked_at: int
    expires_at: int | None
    decided_at: int | None

    @classmethod
    def from_row(cls, row: Row) -> Approval:
        """Read a row of `APPROVALS`."""
        given: dict[str, Any] = {name: row[name] for name in cls.__slots__}
        texts = {name: json.loads(row[name]) for name in ("prompt", "options")}
        return cls(**{**given, **texts, "session_id": row["session_name"]})

    @property
    def outcome(self) -> str:
        """What became of it, in words."""
        is_answered = self.state == "answered"
        if is_answered:
            return f"`{self.answer}` by {self.answered_by}"
        return self.state


def read_approval(connection: Connection, tenant_id: str, approval_id: str) -> Approval:
    """Return a tenant's question inside a transaction, or raise NotFoundError."""
    return Approval.from_row(_own_approval(connection, tenant_id, approval_id))


def _own_approval(connection: Connection, tenant_id: str, approval_id: str) -> Row:
    sql = f"{APPROVALS} WHERE a.approval_id = :approval AND a.tenant_id = :tenant"
    row = one_of(connection, sql, approval=approval_id, tenant=tenant_id)
    if row is None:
        raise NotFoundError("approval", approval_id)
    return row


def open_approvals(
    connection: Connection, tenant_id: str, session_id: str | None, limit: int
) -> list[Approval]:
    """Return what a tenant is asked, or one session by its key, in a transaction; oldest first."""
    rows = all_of(
        connection,
        f"{APPROVALS} WHERE a.tenant_id = :tenant AND a.state = 'open' "
        "AND a.session_id = COALESCE(CAST(:session AS TEXT), a.session_id) "
        "ORDER BY a.asked_at, a.approval_id LIMIT :limit",
        tenant=tenant_id,
        session=session_id,
        limit=limit,
    )
    return [Approval.from_row(row) for row in rows]


def answer_approval(
    connection: Connection, tenant_id: str, approval_id: str, answer: str, by: str
) -> Approval:
    """Answer a question inside a transaction and let its turn continue; returns what it came to.

    Raises:
        NotFoundError: there is no such question.
        ValueError: that is none of its options.
    """
    row = _own_approval(connection, tenant_id, approval_id)
    approval = Approval.from_row(row)
    if answer not in approval.options:
        known = ", ".join(f"`{each}`" for each in approval.options)
        raise ValueError(f"`{answer}` is no answer to approval `{approval_id}`; it takes {known}.")
    hold_session(connection, row["session_id"])
    _expire(connection, approval_id)
    _decide(connection, approval_id, "answered", answer, by)
    return read_approval(connection, tenant_id, approval_id)


def overdue_approvals(connection: Connection) -> list[tuple[str, str]]:
    """Return the session and the id of each question whose time is up."""
    sql = (
        "SELECT session_id, approval_id FROM approvals "
        "WHERE state = 'open' AND expires_at <= now_ms() ORDER BY expires_at LIMIT 1000"
    )
    rows = all_of(connection, sql)
    return [(row["session_id"], row["approval_id"]) for row in rows]


def expire_approval(connection: Connection, session_id: str, approval_id: str) -> None:
    """Decide a question by its time inside a transaction, if nothing else has decided it."""
    hold_session(connection, session_id)
    _expire(connection, approval_id)


def withdraw_approvals(connection: Connection, turn_id: str) -> None:
    """Decide inside a transaction that nobody needs the open answers of a turn any more."""
    execute(
        connection,
        "UPDATE approvals SET state = 'withdrawn', decided_at = now_ms() "
        "WHERE turn_id = :turn AND state = 'open'",
        turn=turn_id,
    )


def _expire(connection: Connection, approval_id: str) -> None:
    sql = "SELECT 1 FROM approvals WHERE approval_id = :approval AND expires_at <= now_ms()"
    if one_of(connection, sql, approval=approval_id) is not None:
        _decide(connection, approval_id, "expired")


def _decide(
    connection: Connection,
    approval_id: str,
    state: str,
    answer: str | None = None,
    by: str | None = None,
) -> None:
    row = one_of(
        connection,
        "UPDATE approvals SET state = :state, answer = :answer, answered_by = :by, "
        "decided_at = now_ms() WHERE approval_id = :approval AND state = 'open' RETURNING turn_id",
        approval=approval_id,
        state=state,
        answer=answer,
        by=by,
    )
    if row is not None:
        wake_turn(connection, row["turn_id"])
