"""Which worker runs which turn: fair claims, fenced by an epoch, and how they are given up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from amplifier_runtime.database.database import Connection, Database, Row, all_of, execute, one_of
from amplifier_runtime.database.row_keys import NAME
from amplifier_runtime.database.store import FINISHED, from_json, read_messages, to_json
from amplifier_runtime.errors import Fenced

__all__ = [
    "CRASH_LIMIT",
    "Claim",
    "Claims",
    "Outcome",
    "check_fence",
    "let_next_go",
    "requeue_turns_of",
]

CRASH_LIMIT = 3
"""How many workers a turn may take with it, unless their settings say otherwise."""

# After a run that did not end its turn, the turn is ready again, or parked if it crashed too often.
_CRASHED = (
    "crashes = crashes + :more, worker_id = NULL, "
    "state = CASE WHEN crashes + :more >= :limit THEN 'parked' ELSE 'ready' END, "
    "reason = CASE WHEN crashes + :more >= :limit THEN 'crashed' ELSE NULL END"
)
_NO_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn that one worker may run, with its session's data; `epoch` is the fence."""

    turn_id: str
    tenant_id: str
    session_id: str
    parent_turn_id: str | None
    ordinal: int
    prompt: str
    epoch: int
    runs: int
    signals: int
    plan: dict[str, Any]
    state: dict[str, Any]
    messages: list[dict[str, Any]]
    parent_id: str | None
    # The tenant's id of the session; `session_id` is the key of its rows.
    session_name: str = ""
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def content(self) -> str | list[dict[str, Any]]:
        """The prompt as it was submitted: a text, or blocks of content."""
        return self.details.get("content") or self.prompt


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended, and the session's new data; `state` is one of FINISHED."""

    state: str
    answer: str | None
    error: dict[str, Any] | None
    messages: list[dict[str, Any]]
    session_state: dict[str, Any]


def check_fence(connection: Connection, session_id: str, epoch: int) -> None:
    """Lock the session's row, or raise Fenced if another worker has claimed the session.

    Every transaction of a run that writes does this first.
    """
    # An update, so that on SQLite too the lock is held from here on.
    sql = "UPDATE sessions SET epoch = epoch WHERE session_id = :session AND epoch = :epoch"
    if execute(connection, sql, session=session_id, epoch=epoch) == 0:
        raise Fenced


class Claims:
    """Claims, ends and gives back the turns of one worker."""

    def __init__(
        self,
        database: Database,
        worker_id: str,
        versions: Sequence[str],
        *,
        crash_limit: int = CRASH_LIMIT,
    ) -> None:
        """`versions` are the code versions whose turns it can continue, its own first."""
        self._database = database
        self._crash_limit = crash_limit
        self._worker_id = worker_id
        self._versions = tuple(versions)

    async def take(self, most: int) -> list[Claim]:
        """Claim up to `most` turns, first those of the tenants with the fewest running turns."""

        def work(connection: Connection) -> list[Claim]:
            # A read first, so that an idle worker takes no lock five times a second.
            candidates = self._fairest(connection, most)
            if not candidates or not self._is_alive(connection):
                return []
            sessions = {row["session_id"] for row in candidates}
            if not self._database.is_sqlite:
                sessions = _locked(connection, sessions)
            turns = [row["turn_id"] for row in candidates if row["session_id"] in sessions]
            return [
                claim
                for turn_id in turns
                if (claim := self._take_one(connection, turn_id)) is not None
            ]

        return await self._database.run(work)

    def _fairest(self, connection: Connection, most: int) -> Sequence[Row]:
        """Return the next turns: a tenant's n-th running turn comes after everybody's (n-1)-th.

        Of the turns that another crash would park, a worker runs one at a time: when it dies, no
        turn is parked because of a crash that another one caused.
        """
        names = {f"version{index}": version for index, version in enumerate(self._versions)}
        known = ", ".join(f":{name}" for name in names)
        is_ready = (
            "state = 'ready' AND ready_at <= now_ms() "
            f"AND (code_version IS NULL OR code_version IN ({known}))"
        )
        which = "turn_id, session_id, tenant_id, submitted_at"
        return all_of(
            connection,
            "SELECT turn_id, session_id FROM ("
            "  SELECT t.turn_id, t.session_id, t.submitted_at, n.weight, n.max_running,"
            "    COALESCE(r.running, 0) + ROW_NUMBER() OVER "
            "      (PARTITION BY t.tenant_id ORDER BY t.submitted_at, t.turn_id) AS place"
            f"  FROM (SELECT {which} FROM turns WHERE {is_ready} AND crashes < :last"
            f"    UNION ALL SELECT * FROM (SELECT {which} FROM turns WHERE {is_ready}"
            "      AND crashes >= :last AND NOT EXISTS (SELECT 1 FROM turns WHERE"
            "        worker_id = :worker AND state = 'running' AND crashes >= :last)"
            "      ORDER BY submitted_at, turn_id LIMIT 1) suspect"
            "  ) t JOIN tenants n ON n.tenant_id = t.tenant_id"
            "  LEFT JOIN (SELECT tenant_id, COUNT(*) AS running FROM turns"
            "    WHERE state = 'running' GROUP BY tenant_id) r ON r.tenant_id = t.tenant_id"
            ") line WHERE max_running IS NULL OR place <= max_running "
            "ORDER BY place / weight, submitted_at, turn_id LIMIT :most",
            most=most,
            worker=self._worker_id,
            # With a crash limit of 1, turns that never crashed would count as suspects.
            last=max(1, self._crash_limit - 1),
            **names,
        )

    def _is_alive(self, connection: Connection) -> bool:
        """Lock this worker's row, so that it is not declared dead while it claims turns."""
        sql = "UPDATE workers SET state = state WHERE worker_id = :worker AND state = 'alive'"
        return execute(connection, sql, worker=self._worker_id) == 1

    def _take_one(self, connection: Connection, turn_id: str) -> Claim | None:
        # The session's row, or all of SQLite, is locked: a ready turn stays so until the end.
        session = one_of(
            connection,
            "UPDATE sessions SET epoch = epoch + 1 WHERE session_id = "
            "(SELECT session_id FROM turns WHERE turn_id = :turn AND state = 'ready') "
            f"RETURNING epoch, plan, state, parent_id, {NAME} AS session_name",
            turn=turn_id,
        )
        if session is None:
            return None
        row = one_of(
            connection,
            "UPDATE turns SET state = 'running', worker_id = :worker, runs = runs + 1, "
            "epoch = :epoch, code_version = COALESCE(code_version, :version), "
            "started_at = COALESCE(started_at, now_ms()) WHERE turn_id = :turn RETURNING *",
            turn=turn_id,
            worker=self._worker_id,
            epoch=session["epoch"],
            version=self._versions[0],
        )
        assert row is not None
        return _claim(row, session, read_messages(connection, row["session_id"]))

    async def finish(
        self,
        claim: Claim,
        outcome: Outcome,
        parts: Iterable[Callable[[Connection], None]] = (),
    ) -> None:
        """Write the end of the turn and its messages, and make the session's next turn ready.

        `parts` are run in the same transaction.

        Raises:
            Fenced: another worker has claimed the turn; nothing was written.
        """

        def work(connection: Connection) -> None:
            if self._is_finished(connection, claim):
                return
            check_fence(connection, claim.session_id, claim.epoch)
            _write_messages(connection, claim, outcome.messages)
            for part in parts:
                part(connection)
            execute(
                connection,
                "UPDATE turns SET state = :state, answer = :answer, error = :error, "
                "worker_id = NULL, finished_at = now_ms() WHERE turn_id = :turn",
                turn=claim.turn_id,
                state=outcome.state,
                answer=outcome.answer,
                error=None if outcome.error is None else to_json(outcome.error),
            )
            if outcome.session_state != claim.state:
                sql = "UPDATE sessions SET state = :state WHERE session_id = :session"
                state = to_json(outcome.session_state)
                execute(connection, sql, state=state, session=claim.session_id)
            let_next_go(connection, claim.session_id)

        await self._database.run(work)

    def _is_finished(self, connection: Connection, claim: Claim) -> bool:
        """Whether this run wrote the end already, by a commit whose confirmation was lost."""
        sql = "SELECT state, epoch FROM turns WHERE turn_id = :turn"
        row = one_of(connection, sql, turn=claim.turn_id)
        return row is not None and row["state"] in FINISHED and row["epoch"] == claim.epoch

    async def give_back(
        self, claim: Claim, *, delay_seconds: float = 0.0, crashed: bool = False
    ) -> None:
        """Make the turn ready for other workers, now or later; does nothing if one has it already.

        A turn that `crashed` too often is parked instead.
        """

        def work(connection: Connection) -> None:
            execute(
                connection,
                f"UPDATE turns SET {_CRASHED}, ready_at = now_ms() + CAST(:delay AS BIGINT) "
                "WHERE turn_id = :turn "
                "AND state = 'running' AND epoch = :epoch AND worker_id = :worker",
                turn=claim.turn_id,
                epoch=claim.epoch,
                worker=self._worker_id,
                delay=int(delay_seconds * 1000),
                more=int(crashed),
                limit=self._crash_limit if crashed else _NO_LIMIT,
            )

        await self._database.run(work)

    async def park(self, claim: Claim, reason: str, signals: int) -> bool:
        """Park the turn until `wake_turn`; returns False if a signal came that it has not seen.

        `signals` is how many it has seen. With a new one, the turn is made ready instead: its wake
        would have found it running and done nothing.

        Raises:
            Fenced: another worker has claimed the turn.
        """

        def work(connection: Connection) -> bool:
            check_fence(connection, claim.session_id, claim.epoch)
            row = one_of(
                connection,
                "UPDATE turns SET worker_id = NULL, "
                "state = CASE WHEN signals = :signals THEN 'parked' ELSE 'ready' END, "
                "reason = CASE WHEN signals = :signals THEN CAST(:reason AS TEXT) ELSE NULL END "
                "WHERE turn_id = :turn RETURNING state",
                turn=claim.turn_id,
                signals=signals,
                reason=reason,
            )
            return row is not None and row["state"] == "parked"

        return await self._database.run(work)

    async def disown(self, turn_ids: Iterable[str]) -> None:
        """Give back turns that the database assigns to this worker and that it does not know."""

        def work(connection: Connection) -> None:
            for turn_id in turn_ids:
                execute(
                    connection,
                    "UPDATE turns SET state = 'ready', worker_id = NULL "
                    "WHERE turn_id = :turn AND worker_id = :worker AND state = 'running'",
                    turn=turn_id,
                    worker=self._worker_id,
                )

        await self._database.run(work)

    async def mine(self) -> set[str]:
        """Return the turns that the database assigns to this worker."""

        def work(connection: Connection) -> set[str]:
            sql = "SELECT turn_id FROM turns WHERE worker_id = :worker AND state = 'running'"
            return {row["turn_id"] for row in all_of(connection, sql, worker=self._worker_id)}

        return await self._database.run(work)


def requeue_turns_of(connection: Connection, worker_id: str, crash_limit: int) -> list[str]:
    """Fence off a dead worker's turns and make them ready, inside a transaction; returns them.

    A turn that has lost `crash_limit` workers is parked, with the reason.
    """
    sql = "SELECT session_id FROM turns WHERE worker_id = :worker AND state = 'running'"
    # Sorted: sessions are locked in the same order everywhere, against deadlocks.
    sessions = sorted(row["session_id"] for row in all_of(connection, sql, worker=worker_id))
    for session_id in sessions:
        execute(
            connection,
            "UPDATE sessions SET epoch = epoch + 1 WHERE session_id = :session",
            session=session_id,
        )
    rows = all_of(
        connection,
        f"UPDATE turns SET {_CRASHED} "
        "WHERE worker_id = :worker AND state = 'running' RETURNING turn_id",
        worker=worker_id,
        more=1,
        limit=crash_limit,
    )
    return [row["turn_id"] for row in rows]


def _locked(connection: Connection, sessions: set[str]) -> set[str]:
    """Lock and return those of the sessions that no other transaction has locked."""
    sql = (
        "SELECT session_id FROM sessions WHERE session_id = ANY(:sessions) "
        "ORDER BY session_id FOR UPDATE SKIP LOCKED"
    )
    return {row["session_id"] for row in all_of(connection, sql, sessions=list(sessions))}


def _claim(row: Row, session: Row, messages: list[dict[str, Any]]) -> Claim:
    return Claim(
        turn_id=row["turn_id"],
        tenant_id=row["tenant_id"],
        session_id=row["session_id"],
        parent_turn_id=row["parent_turn_id"],
        ordinal=row["ordinal"],
        prompt=row["prompt"],
        epoch=session["epoch"],
        runs=row["runs"],
        signals=row["signals"],
        plan=from_json(session["plan"]),
        state=from_json(session["state"]),
        messages=messages,
        parent_id=session["parent_id"],
        session_name=session["session_name"],
        details=from_json(row["details"]),
    )


def _write_messages(connection: Connection, claim: Claim, messages: list[dict[str, Any]]) -> None:
    """Replace the stored history by `messages`, from the first difference on."""
    before = [to_json(each) for each in claim.messages]
    now = [to_json(each) for each in messages]
    same = 0
    while same < min(len(before), len(now)) and before[same] == now[same]:
        same += 1
    if same < len(before):
        sql = "DELETE FROM messages WHERE session_id = :session AND position >= :same"
        execute(connection, sql, session=claim.session_id, same=same)
    for position in range(same, len(now)):
        execute(
            connection,
            "INSERT INTO messages (session_id, position, turn_id, message) "
            "VALUES (:session, :position, :turn, :message)",
            session=claim.session_id,
            position=position,
            turn=claim.turn_id,
            message=now[position],
        )


def let_next_go(connection: Connection, session_id: str) -> None:
    """Make the next waiting turn of a session ready, inside the transaction that ends one."""
    execute(
        connection,
        "UPDATE turns SET state = 'ready', ready_at = now_ms() WHERE turn_id = "
        "(SELECT turn_id FROM turns WHERE session_id = :session AND state = 'waiting' "
        "ORDER BY ordinal LIMIT 1)",
        session=session_id,
    )
