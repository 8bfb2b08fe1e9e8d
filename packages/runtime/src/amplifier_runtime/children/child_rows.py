"""The rows of child turns: starting one, asking it to stop, and what follows from its end."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from amplifier_runtime.database.database import Connection, Row, all_of, execute, one_of
from amplifier_runtime.database.row_keys import NAME, find_session, insert_session
from amplifier_runtime.database.store import (
    hold_session,
    read_messages,
    submit_turn,
    to_json,
    wake_turn,
)
from amplifier_runtime.turns.claims import Claim, check_fence

__all__ = [
    "CHILD",
    "ancestors_of",
    "child_of",
    "conclude",
    "end_what_is_due",
    "facts_of",
    "open_children",
    "request_stop",
    "root_of",
    "start_child",
]

# Why a turn that waits for its children is parked.
CHILD = "child"
_PLAIN_ID = re.compile(r"\w[\w.-]{0,199}")
_REST = "('waiting', 'ready', 'parked')"
_JOINED = (
    "SELECT c.*, t.state, t.answer, t.error, t.submitted_at, "
    "COALESCE(t.finished_at, now_ms()) AS until, COALESCE(s.name, s.session_id) AS session_name "
    "FROM children c JOIN turns t ON t.turn_id = c.turn_id "
    "JOIN sessions s ON s.session_id = c.session_id"
)


def child_of(connection: Connection, session_id: str) -> Row | None:
    """Return the `children` row of a session's latest turn, or None if it is not a child."""
    # A resumed child has one row for each of its turns; the latest has the limits in effect.
    sql = "SELECT * FROM children WHERE session_id = :session ORDER BY deadline_at DESC LIMIT 1"
    return one_of(connection, sql, session=session_id)


def root_of(connection: Connection, session_id: str) -> str:
    """Return the id of the root session of the tree that a session belongs to."""
    row = child_of(connection, session_id)
    if row is None:
        return session_id
    return row["root_id"]


def ancestors_of(connection: Connection, child: Row | None) -> list[Row]:
    """Return the ancestors of a child, root first, each with its state when the child started."""
    above: list[Row] = []
    while child is not None:
        parent = one_of(
            connection,
            f"SELECT session_id, {NAME} AS session_name, parent_id, plan, "
            "CAST(:state AS TEXT) AS state FROM sessions WHERE session_id = :session",
            session=child["parent_session_id"],
            state=child["parent_state"],
        )
        assert parent is not None
        above.insert(0, parent)
        child = child_of(connection, child["parent_session_id"])
    return above


def start_child(
    connection: Connection,
    claim: Claim,
    key: str,
    order: dict[str, Any],
    given: dict[str, Any],
) -> dict[str, Any] | str:
    """Submit the turn of a child once, under the key of the call that asks for it.

    Returns the child, or a text that says why it was refused. `given` has the child's `plan` and
    `trace_context`, and the `state` of its parent.
    """
    check_fence(connection, claim.session_id, claim.epoch)
    sql = "SELECT handle FROM children WHERE parent_turn_id = :turn AND call_key = :key"
    # A parent that is run again makes the same calls again: each finds the child it started.
    known = one_of(connection, sql, turn=claim.turn_id, key=key)
    if known is not None:
        return _whole(connection, claim, known["handle"])
    root = root_of(connection, claim.session_id)
    if order.get("is_resumed"):
        name, order = _own_child(connection, claim, order)
        # The child's session may have turns from several parent turns, and call keys are unique
        # only within one of them.
        turn_key = f"{claim.turn_id}/{key}"
    else:
        name = _free_name(connection, claim, key, order)
        turn_key = key
    if refusal := _refusal(connection, claim, root, order):
        return refusal
    if not order.get("is_resumed"):
        parent = claim.session_name or claim.session_id
        insert_session(connection, claim.tenant_id, name, to_json(given["plan"]), parent)
    details = {"trace_context": given["trace_context"]} if given["trace_context"] else {}
    turn = submit_turn(
        connection,
        claim.tenant_id,
        name,
        order["prompt"],
        turn_key,
        claim.turn_id,
        to_json(details),
    )
    _insert_messages(connection, turn, order)
    handle = _insert(connection, claim, turn, root, key, order, given)
    return _whole(connection, claim, handle)


def _free_name(connection: Connection, claim: Claim, key: str, order: dict[str, Any]) -> str:
    """Return the id of a new child: the requested one if valid and free, else a derived one."""
    wanted = str(order.get("session_id") or "")
    if _PLAIN_ID.fullmatch(wanted) and find_session(connection, claim.tenant_id, wanted) is None:
        return wanted
    digest = hashlib.sha256(f"{claim.turn_id}/{key}".encode()).hexdigest()[:12]
    return f"{claim.session_name or claim.session_id}-{digest}"


def _own_child(
    connection: Connection, claim: Claim, order: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the id of a child that is resumed, and the order completed from its row.

    Raises:
        FileNotFoundError: the session that asks has no such child. The error is the same if the
            id belongs to another session, so that ids of others cannot be probed.
    """
    wanted = str(order["session_id"])
    row = find_session(connection, claim.tenant_id, wanted)
    if row is None:
        child = None
    else:
        child = child_of(connection, row["session_id"])
    if child is None or child["parent_session_id"] != claim.session_id:
        raise FileNotFoundError(f"This session has no child '{wanted[:200]}'.")
    known = {"agent": child["agent"], "told_depth": child["told_depth"]}
    return wanted, {**order, **known, "is_running": child["stop_reason"] is None}


def _insert_messages(connection: Connection, turn: Row, order: dict[str, Any]) -> None:
    """Insert the messages that a new child has in its context before its first prompt."""
    if order.get("is_resumed"):
        return
    told = order["instruction"]
    first = [{"role": "system", "content": told}] if told else []
    for position, message in enumerate([*first, *(order.get("history") or ())]):
        execute(
            connection,
            "INSERT INTO messages (session_id, position, turn_id, message) "
            "VALUES (:session, :position, :turn, :message)",
            session=turn["session_id"],
            position=position,
            turn=turn["turn_id"],
            message=to_json(message),
        )


def _whole(connection: Connection, claim: Claim, handle: str) -> dict[str, Any]:
    [facts] = facts_of(connection, claim.session_id, handle=handle)
    return facts


def _refusal(connection: Connection, claim: Claim, root: str, order: dict[str, Any]) -> str | None:
    limits = order["limits"]
    if order.get("is_running"):
        return "This agent is still at work. Wait for it to end."
    if order["depth"] > limits["max_depth"]:
        return f"Agents may be nested {limits['max_depth']} deep. Do the work yourself."
    sql = (
        "SELECT COUNT(*) AS running FROM children "
        "WHERE parent_session_id = :session AND stop_reason IS NULL"
    )
    row = one_of(connection, sql, session=claim.session_id)
    if row is not None and row["running"] >= limits["max_children"]:
        most = limits["max_children"]
        return f"{most} tasks are running, the most there may be. Wait for one to end."
    if order.get("is_resumed"):
        # `max_total` counts sessions, and this one was counted when it was started.
        return None
    execute(
        connection, "INSERT INTO trees (root_id) VALUES (:root) ON CONFLICT DO NOTHING", root=root
    )
    # Check and increment in one statement, because children of a tree start on any worker.
    sql = "UPDATE trees SET started = started + 1 WHERE root_id = :root AND started < :most"
    if execute(connection, sql, root=root, most=limits["max_total"]) == 0:
        return f"All {limits['max_total']} agents were started. Do the rest yourself."
    return None


def _insert(
    connection: Connection,
    claim: Claim,
    turn: Row,
    root: str,
    key: str,
    order: dict[str, Any],
    given: dict[str, Any],
) -> str:
    row = one_of(
        connection,
        "INSERT INTO children (turn_id, session_id, root_id, parent_session_id, parent_turn_id, "
        "call_key, handle, agent, background, depth, limits, parent_state, told_depth, "
        "deadline_at) "
        "SELECT CAST(:turn AS TEXT), CAST(:session AS TEXT), CAST(:root AS TEXT), "
        "CAST(:parent AS TEXT), CAST(:asker AS TEXT), CAST(:key AS TEXT), "
        "'task-' || (COUNT(*) + 1), CAST(:agent AS TEXT), CAST(:background AS INTEGER), "
        "CAST(:depth AS INTEGER), CAST(:limits AS TEXT), CAST(:state AS TEXT), "
        "CAST(:told_depth AS INTEGER), now_ms() + CAST(:lasts AS BIGINT) FROM children "
        "WHERE parent_session_id = :parent RETURNING handle",
        turn=turn["turn_id"],
        session=turn["session_id"],
        root=root,
        parent=claim.session_id,
        asker=claim.turn_id,
        key=key,
        agent=order["agent"],
        background=int(order["background"]),
        depth=order["depth"],
        limits=to_json(order["limits"]),
        state=to_json(given["state"]),
        told_depth=order.get("told_depth"),
        lasts=int(order["seconds"] * 1000),
    )
    assert row is not None
    return row["handle"]


def facts_of(
    connection: Connection, session_id: str, *, handle: str | None = None, told: str | None = None
) -> list[dict[str, Any]]:
    """Return the children of a session, as `task.runner` reports them."""
    rows = all_of(
        connection,
        f"{_JOINED} WHERE c.parent_session_id = :session "
        "AND (CAST(:handle AS TEXT) IS NULL OR c.handle = :handle) "
        "AND (CAST(:told AS TEXT) IS NULL OR c.told = :told) ORDER BY t.submitted_at, c.turn_id",
        session=session_id,
        handle=handle,
        told=told,
    )
    return [_facts(connection, row, is_whole=handle is not None) for row in rows]


def _facts(connection: Connection, row: Row, *, is_whole: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "handle": row["handle"],
        "agent": row["agent"],
        "background": bool(row["background"]),
        "child_session_id": row["session_name"],
        "seconds": round((row["until"] - row["submitted_at"]) / 1000, 3),
        "stop_reason": row["stop_reason"],
    }
    if is_whole and row["stop_reason"] is not None:
        messages = read_messages(connection, row["session_id"])
        if row["error"] is None:
            error = None
        else:
            error = json.loads(row["error"]).get("message")
        facts |= {"answer": row["answer"], "error": error, "messages": messages}
    return facts


def request_stop(connection: Connection, children: Sequence[Row], reason: str) -> None:
    """Stop children: end those that no worker runs here, and ask the workers of the others."""
    # Sessions are always locked in the order of their keys, so that two transactions that lock
    # several of them cannot deadlock.
    for child in sorted(children, key=lambda each: each["session_id"]):
        hold_session(connection, child["session_id"])
        execute(
            connection,
            "UPDATE children SET stop = COALESCE(stop, :reason), "
            "stop_at = COALESCE(stop_at, now_ms()) WHERE turn_id = :turn AND stop_reason IS NULL",
            turn=child["turn_id"],
            reason=reason,
        )
        sql = (
            "UPDATE turns SET state = 'cancelled', reason = NULL, finished_at = now_ms() "
            f"WHERE turn_id = :turn AND state IN {_REST}"
        )
        if execute(connection, sql, turn=child["turn_id"]) == 1:
            conclude(connection, child["turn_id"], reason)


def conclude(connection: Connection, turn_id: str, reason: str) -> None:
    """Record that a child has ended, stop its own children, and wake the turn that waits for it."""
    child = one_of(
        connection,
        "UPDATE children SET stop_reason = :reason WHERE turn_id = :turn "
        "AND stop_reason IS NULL RETURNING session_id, waiter",
        turn=turn_id,
        reason=reason,
    )
    # Somebody else has concluded it, or the turn is not a child: nobody is woken twice.
    if child is None:
        return
    request_stop(connection, open_children(connection, child["session_id"]), "parent_ended")
    if child["waiter"] is None:
        return
    # Locks the row of the waiting turn: of two children that end at the same moment, the second
    # sees that the first has ended, and wakes it.
    sql = "UPDATE turns SET signals = signals + 1 WHERE turn_id = :turn"
    execute(connection, sql, turn=child["waiter"])
    _wake_unless_it_waits(connection, child["waiter"])


def open_children(connection: Connection, session_id: str) -> Sequence[Row]:
    """Return the children of a session that have not ended."""
    sql = "SELECT * FROM children WHERE parent_session_id = :session AND stop_reason IS NULL"
    return all_of(connection, sql, session=session_id)


def _wake_unless_it_waits(connection: Connection, turn_id: str) -> None:
    execute(
        connection,
        "UPDATE turns SET state = 'ready', reason = NULL WHERE turn_id = :turn "
        f"AND state = 'parked' AND reason = '{CHILD}' AND NOT EXISTS "
        "(SELECT 1 FROM children WHERE waiter = :turn AND stop_reason IS NULL)",
        turn=turn_id,
    )


def end_what_is_due(connection: Connection, grace_seconds: float) -> None:
    """Enforce deadlines, stop orphans, cut off children that ignore a stop, and end timed waits.

    Idempotent: any worker may run it at any time, and several in parallel.
    """
    is_open = "c.stop_reason IS NULL"
    late = all_of(
        connection,
        f"{_JOINED} WHERE {is_open} AND c.stop IS NULL AND c.deadline_at <= now_ms()",
    )
    request_stop(connection, late, "deadline")
    orphans = all_of(
        connection,
        f"{_JOINED} JOIN turns p ON p.turn_id = c.parent_turn_id "
        f"WHERE {is_open} AND c.stop IS NULL AND p.state = 'cancelled'",
    )
    request_stop(connection, orphans, "cancelled")
    ended = f"{_JOINED} WHERE {is_open} AND t.state IN ('done', 'failed', 'cancelled')"
    for child in all_of(connection, ended):
        # Ended outside of this file, for example by a client that cancelled it.
        conclude(connection, child["turn_id"], child["stop"] or "cancelled")
    stubborn = (
        f"{_JOINED} WHERE {is_open} AND c.stop_at <= now_ms() - CAST(:grace AS BIGINT) "
        "AND t.state = 'running'"
    )
    for child in all_of(connection, stubborn, grace=int(grace_seconds * 1000)):
        _cut_off(connection, child)
    _end_waits(connection)


def _cut_off(connection: Connection, child: Row) -> None:
    """End a child that ignored its stop request, and fence off its worker."""
    sql = "UPDATE sessions SET epoch = epoch + 1 WHERE session_id = :session"
    execute(connection, sql, session=child["session_id"])
    sql = (
        "UPDATE turns SET state = 'cancelled', worker_id = NULL, finished_at = now_ms() "
        "WHERE turn_id = :turn AND state = 'running'"
    )
    if execute(connection, sql, turn=child["turn_id"]) == 1:
        conclude(connection, child["turn_id"], child["stop"])


def _end_waits(connection: Connection) -> None:
    sql = "SELECT waiter FROM children WHERE waiter IS NOT NULL AND waited_until <= now_ms()"
    if one_of(connection, sql) is not None:
        rows = all_of(
            connection,
            "UPDATE children SET waited_until = NULL WHERE waiter IS NOT NULL "
            "AND waited_until <= now_ms() RETURNING waiter",
        )
        for waiter in sorted({row["waiter"] for row in rows}):
            wake_turn(connection, waiter)
    # A safety net for the wake-ups of `conclude`: a lost one must not leave a turn parked for ever.
    sql = (
        "SELECT DISTINCT t.turn_id FROM children c JOIN turns t ON t.turn_id = c.waiter "
        f"WHERE c.stop_reason IS NOT NULL AND t.state = 'parked' AND t.reason = '{CHILD}'"
    )
    for row in all_of(connection, sql):
        _wake_unless_it_waits(connection, row["turn_id"])
