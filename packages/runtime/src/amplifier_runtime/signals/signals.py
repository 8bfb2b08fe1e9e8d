"""Signals from apps to turns, from any machine: approval answers, cancellation, steering."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

from amplifier_runtime.database.database import Connection, Database, Row, all_of, execute, one_of
from amplifier_runtime.database.row_keys import new_id
from amplifier_runtime.database.store import (
    FINISHED,
    Store,
    Turn,
    hold_session,
    own_session,
    to_json,
    wake_turn,
)
from amplifier_runtime.errors import AlreadyDecidedError, NotFoundError
from amplifier_runtime.turns.claims import let_next_go

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
        """The outcome, in words."""
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
    """Return the open questions of a tenant, or of one session by its key, oldest first."""
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
    """Answer a question inside a transaction and wake its turn; returns its final state.

    Raises:
        NotFoundError: there is no such question.
        ValueError: the answer is not one of its options.
    """
    row = _own_approval(connection, tenant_id, approval_id)
    approval = Approval.from_row(row)
    if answer not in approval.options:
        known = ", ".join(f"`{each}`" for each in approval.options)
        raise ValueError(f"`{answer}` is no answer to approval `{approval_id}`; it takes {known}.")
    hold_session(connection, row["session_id"])
    # An answer after the deadline does not count, even if no worker has expired the question yet.
    _expire(connection, approval_id)
    _decide(connection, approval_id, "answered", answer, by)
    return read_approval(connection, tenant_id, approval_id)


def overdue_approvals(connection: Connection) -> list[tuple[str, str]]:
    """Return session and id of each open question whose deadline has passed."""
    sql = (
        "SELECT session_id, approval_id FROM approvals "
        "WHERE state = 'open' AND expires_at <= now_ms() ORDER BY expires_at LIMIT 1000"
    )
    rows = all_of(connection, sql)
    return [(row["session_id"], row["approval_id"]) for row in rows]


def expire_approval(connection: Connection, session_id: str, approval_id: str) -> None:
    """Expire a question inside a transaction, unless it is decided."""
    hold_session(connection, session_id)
    _expire(connection, approval_id)


def withdraw_approvals(connection: Connection, turn_id: str) -> None:
    """Withdraw the open questions of a turn inside a transaction."""
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


class Signals:
    """Sends signals to one tenant's turns; ids of other tenants are not found."""

    def __init__(self, database: Database, tenant_id: str) -> None:
        self.tenant_id = tenant_id
        self._database = database
        self._store = Store(database)

    async def approvals(self, session_id: str | None = None, *, limit: int = 100) -> list[Approval]:
        """Return the open questions, of one session or of all, the oldest first."""

        def work(connection: Connection) -> list[Approval]:
            key = None
            if session_id is not None:
                key = own_session(connection, self.tenant_id, session_id)["session_id"]
            return open_approvals(connection, self.tenant_id, key, limit)

        return await self._database.run(work)

    async def approval(self, approval_id: str) -> Approval:
        """Return a question, open or decided."""
        return await self._database.run(
            lambda connection: read_approval(connection, self.tenant_id, approval_id)
        )

    async def answer(self, approval_id: str, answer: str, *, by: str) -> Approval:
        """Answer a question with one of its options; repeating the same answer changes nothing.

        Raises:
            AlreadyDecidedError: another answer, the timeout or a cancellation came first.
            ValueError: the answer is not one of its options.
        """
        approval = await self._database.run(
            lambda connection: answer_approval(connection, self.tenant_id, approval_id, answer, by)
        )
        if (approval.state, approval.answer, approval.answered_by) != ("answered", answer, by):
            raise AlreadyDecidedError(approval_id, approval.outcome)
        return approval

    async def cancel(self, turn_id: str, *, immediate: bool = False) -> Turn:
        """Ask a turn and its descendants to stop, after the running step or immediately.

        A turn that never ran is cancelled when this returns, any other one when `Client.result`
        returns: what it has done by then stays in the history. A finished turn stays unchanged.
        """
        await self._store.turn(self.tenant_id, turn_id)
        tree = await self._database.run(lambda connection: turns_below(connection, turn_id))
        for each in (turn_id, *tree):
            await self._database.run(partial(cancel_turn, turn_id=each, immediate=immediate))
        return await self._store.turn(self.tenant_id, turn_id)

    async def steer(self, session_id: str, text: str, *, steer_id: str | None = None) -> None:
        """Send a text to the running turn, for its next step, or else to the next turn.

        A text with a `steer_id` that was used before is ignored.
        """
        if not text.strip():
            raise ValueError("There is nothing in the text to steer by.")
        said = steer_id or new_id("steer")

        def work(connection: Connection) -> None:
            key = own_session(connection, self.tenant_id, session_id)["session_id"]
            _steer(connection, key, said, text)

        await self._database.run(work)


def cancel_turn(connection: Connection, turn_id: str, *, immediate: bool) -> None:
    """Ask a turn to stop inside a transaction, or end it here if that needs no worker."""
    turn = _locked(connection, turn_id)
    if turn["state"] in FINISHED:
        return
    withdraw_approvals(connection, turn_id)
    # A turn that has run is ended by a worker, which takes what it did from its journal into the
    # history. One that has crashed its workers is ended here, or it would crash another.
    if turn["runs"] == 0 or turn["reason"] == "crashed":
        _end_here(connection, turn)
        return
    execute(
        connection,
        "UPDATE turns SET cancel = CASE WHEN cancel = 'immediate' THEN cancel "
        "ELSE CAST(:strength AS TEXT) END WHERE turn_id = :turn",
        turn=turn_id,
        strength="immediate" if immediate else "graceful",
    )
    wake_turn(connection, turn_id)


def turns_below(connection: Connection, turn_id: str) -> list[str]:
    """Return the unfinished descendants of a turn."""
    rows = all_of(
        connection,
        "WITH RECURSIVE tree (turn_id, state) AS ("
        "  SELECT turn_id, state FROM turns WHERE parent_turn_id = :turn"
        "  UNION SELECT t.turn_id, t.state FROM turns t"
        "    JOIN tree ON t.parent_turn_id = tree.turn_id"
        ") SELECT turn_id, state FROM tree",
        turn=turn_id,
    )
    return [row["turn_id"] for row in rows if row["state"] not in FINISHED]


def _locked(connection: Connection, turn_id: str) -> Row:
    sql = "SELECT * FROM turns WHERE turn_id = :turn"
    turn = one_of(connection, sql, turn=turn_id)
    assert turn is not None
    hold_session(connection, turn["session_id"])
    # Again, now that it is locked: its state may have changed.
    turn = one_of(connection, sql, turn=turn_id)
    assert turn is not None
    return turn


def _end_here(connection: Connection, turn: Row) -> None:
    execute(
        connection,
        "UPDATE turns SET state = 'cancelled', reason = NULL, finished_at = now_ms() "
        "WHERE turn_id = :turn",
        turn=turn["turn_id"],
    )
    if turn["state"] != "waiting":
        let_next_go(connection, turn["session_id"])
    if turn["parent_turn_id"] is not None:
        wake_turn(connection, turn["parent_turn_id"])


def _steer(connection: Connection, session_id: str, steer_id: str, text: str) -> None:
    hold_session(connection, session_id)
    execute(
        connection,
        "INSERT INTO steers (session_id, steer_id, seq, text, said_at) "
        "SELECT CAST(:session AS TEXT), CAST(:steer AS TEXT), COALESCE(MAX(seq), 0) + 1, "
        "CAST(:text AS TEXT), now_ms() FROM steers WHERE session_id = :session "
        "ON CONFLICT DO NOTHING",
        session=session_id,
        steer=steer_id,
        text=to_json(text),
    )
    # A parked turn is not woken: the text does not answer what it waits for.
    execute(
        connection,
        "UPDATE turns SET signals = signals + 1 WHERE session_id = :session AND state = 'running'",
        session=session_id,
    )
