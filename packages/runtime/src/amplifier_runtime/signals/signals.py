"""What apps tell a turn from any machine: an answer, to stop, what to consider as well."""

from __future__ import annotations

from functools import partial

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
from amplifier_runtime.errors import AlreadyDecidedError
from amplifier_runtime.signals.approvals import (
    Approval,
    answer_approval,
    open_approvals,
    read_approval,
    withdraw_approvals,
)
from amplifier_runtime.turns.claims import let_next_go

__all__ = ["Signals", "cancel_turn", "turns_below"]


class Signals:
    """One tenant's way to its turns while they run or wait; what is not its own is not found."""

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
        """Answer a question with one of its options; to say the same again changes nothing.

        Raises:
            AlreadyDecidedError: another answer, the time or a cancellation came first.
            ValueError: that is none of its options.
        """
        approval = await self._database.run(
            lambda connection: answer_approval(connection, self.tenant_id, approval_id, answer, by)
        )
        if (approval.state, approval.answer, approval.answered_by) != ("answered", answer, by):
            raise AlreadyDecidedError(approval_id, approval.outcome)
        return approval

    async def cancel(self, turn_id: str, *, immediate: bool = False) -> Turn:
        """Ask a turn and all below it to stop, after the running step or immediately.

        A turn that never ran is cancelled when this returns, any other one when `Client.result`
        says so: what it has done by then stays in the history. One that is finished stays so.
        """
        await self._store.turn(self.tenant_id, turn_id)
        tree = await self._database.run(lambda connection: turns_below(connection, turn_id))
        for each in (turn_id, *tree):
            await self._database.run(partial(cancel_turn, turn_id=each, immediate=immediate))
        return await self._store.turn(self.tenant_id, turn_id)

    async def steer(self, session_id: str, text: str, *, steer_id: str | None = None) -> None:
        """Say something to the running turn, at its next step, or else to the next turn.

        The same `steer_id` again says nothing new.
        """
        if not text.strip():
            raise ValueError("There is nothing in the text to steer by.")
        said = steer_id or new_id("steer")

        def work(connection: Connection) -> None:
            key = own_session(connection, self.tenant_id, session_id)["session_id"]
            _steer(connection, key, said, text)

        await self._database.run(work)


def cancel_turn(connection: Connection, turn_id: str, *, immediate: bool) -> None:
    """Ask a turn to stop inside a transaction, or end it if no worker is needed for that."""
    turn = _locked(connection, turn_id)
    if turn["state"] in FINISHED:
        return
    withdraw_approvals(connection, turn_id)
    # What has run may have done something, which its journal has; only a worker can read it. Not
    # so one that ends its workers.
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
    """Return the turns that a turn gave work to, and theirs, that are not finished."""
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
    # One that is parked continues to wait for what it waits for.
    execute(
        connection,
        "UPDATE turns SET signals = signals + 1 WHERE session_id = :session AND state = 'running'",
        session=session_id,
    )
