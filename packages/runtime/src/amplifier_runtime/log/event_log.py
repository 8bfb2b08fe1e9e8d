"""The log as a part of every turn: written in small batches, and announced to readers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial

from amplifier_runtime.database.clock import monotonic
from amplifier_runtime.database.database import (
    Connection,
    Database,
    Row,
    all_of,
    execute,
    one_of,
    read_now,
)
from amplifier_runtime.errors import Fenced, Suspended
from amplifier_runtime.log.event_rows import Head, Record, append, forget_live, open_log
from amplifier_runtime.log.hearing import Hearing
from amplifier_runtime.log.reading import CHANNEL
from amplifier_runtime.turns.claims import Outcome
from amplifier_runtime.turns.turn_run import FAULT, TurnPart, TurnRun

logger = logging.getLogger(__name__)

_BATCH = 1_000
# Cut to less than what is allowed, so that the next event is not one too many again.
_LEFT = 0.9
_DAY_MS = 24 * 60 * 60 * 1000
_IS_OPEN = (
    "turn_id IN (SELECT turn_id FROM turns WHERE session_id = :session "
    "AND state IN ('waiting', 'ready', 'running', 'parked'))"
)


@dataclass(frozen=True, slots=True)
class LogLimits:
    """What a log may hold; live events do not count.

    An event that is larger is cut to size and says so. From a log that is larger, or older, the
    oldest events are deleted; a reader who has not had them gets a marker.
    """

    event_bytes: int = 64 * 1024
    session_rows: int = 100_000
    session_bytes: int = 64 * 1024 * 1024
    days: float | None = 30.0


def is_too_large(head: Head, limits: LogLimits) -> bool:
    """Whether a log is larger than it may be."""
    return head.row_count > limits.session_rows or head.byte_count > limits.session_bytes


async def trim_log(database: Database, session_id: str, limits: LogLimits) -> int:
    """Delete what is too much or too old of one log; returns how many events that were."""
    gone = 0
    while True:
        batch = await database.run(partial(_trim_batch, session_id=session_id, limits=limits))
        gone += batch
        if batch < _BATCH:
            return gone


async def sweep_log(database: Database, limits: LogLimits) -> int:
    """Delete what is too old of all logs, and what ended turns have left behind."""

    def old(connection: Connection) -> list[str]:
        execute(
            connection,
            "DELETE FROM live_events WHERE NOT EXISTS (SELECT 1 FROM turns "
            "WHERE turns.turn_id = live_events.turn_id "
            "AND turns.state IN ('waiting', 'ready', 'running', 'parked'))",
        )
        sql = "SELECT session_id FROM logs WHERE oldest_at < :before LIMIT :batch"
        rows = all_of(connection, sql, before=_oldest_kept(connection, limits), batch=_BATCH)
        return [row["session_id"] for row in rows]

    gone = 0
    while sessions := await database.run(old):
        for session_id in sessions:
            gone += await trim_log(database, session_id, limits)
        if len(sessions) < _BATCH:
            break
    return gone


def _oldest_kept(connection: Connection, limits: LogLimits) -> int:
    if limits.days is None:
        return 0
    return read_now(connection) - int(limits.days * _DAY_MS)


def _trim_batch(connection: Connection, session_id: str, limits: LogLimits) -> int:
    head = one_of(
        connection,
        "UPDATE logs SET next_seq = next_seq WHERE session_id = :session "
        "RETURNING row_count, byte_count",
        session=session_id,
    )
    if head is None:
        return 0
    # What was cut off while its turn could still run again has done its service.
    sql = f"DELETE FROM events WHERE session_id = :session AND size = 0 AND NOT {_IS_OPEN}"
    execute(connection, sql, session=session_id)
    oldest = all_of(
        connection,
        "SELECT seq, size, created_at FROM events WHERE session_id = :session AND size > 0 "
        "ORDER BY seq LIMIT :batch",
        session=session_id,
        batch=_BATCH,
    )
    rows, size = _too_many(oldest, head, limits, _oldest_kept(connection, limits))
    if rows:
        _cut(connection, session_id, oldest[rows - 1]["seq"])
    execute(
        connection,
        "UPDATE logs SET row_count = row_count - :rows, byte_count = byte_count - :size, "
        "oldest_at = (SELECT created_at FROM events WHERE session_id = :session AND size > 0 "
        "ORDER BY seq LIMIT 1) WHERE session_id = :session",
        session=session_id,
        rows=rows,
        size=size,
    )
    return rows


def _too_many(oldest: Sequence[Row], head: Row, limits: LogLimits, before: int) -> tuple[int, int]:
    """Return how many of the oldest events have to go, and how large they are."""
    left_rows = head["row_count"]
    left_bytes = head["byte_count"]
    is_over = left_rows > limits.session_rows or left_bytes > limits.session_bytes
    most_rows = _LEFT * limits.session_rows
    most_bytes = _LEFT * limits.session_bytes
    rows = 0
    size = 0
    for row in oldest:
        is_much = is_over and (left_rows - rows > most_rows or left_bytes - size > most_bytes)
        if not is_much and row["created_at"] >= before:
            break
        rows = rows + 1
        size = size + row["size"]
    return rows, size


def _cut(connection: Connection, session_id: str, last: int) -> None:
    """Delete the events up to `last`; of a turn that may run again, all but the keys."""
    which = {"session": session_id, "last": last}
    sql = "DELETE FROM events WHERE session_id = :session AND seq <= :last AND NOT "
    execute(connection, sql + _IS_OPEN, **which)
    execute(
        connection,
        "UPDATE events SET data = '', size = 0 WHERE session_id = :session AND seq <= :last "
        "AND size > 0",
        **which,
    )


TURN_ENDED = "turn:ended"
_BATCH_SECONDS = 0.005
_BATCH_RECORDS = 1_000
_MOST_PENDING = 4_000
_SWEEP_SECONDS = 60.0
# A notification has at most 8,000 bytes.
_LONGEST_TELLING = 7_000


class EventLog(TurnPart):
    """Keeps the log of every turn of a worker.

    An event is written once, however often its turn is run. What only shows progress, such as the
    pieces of an answer, is live: readers get it, and it is deleted when the turn ends. When a run
    is lost, the next one says in the log which live events are void.
    """

    def __init__(self, database: Database, limits: LogLimits | None = None) -> None:
        self._database = database
        self._limits = limits or LogLimits()
        self._hearings: dict[str, Hearing] = {}
        self._changed: set[str] = set()
        self._large: set[str] = set()
        self._writer: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._round = asyncio.Event()
        self._swept_at = monotonic()

    # --- the parts of a turn ---------------------------------------------------------------------

    async def prepare(self, run: TurnRun) -> None:
        """Void what the runs before this one lost, and hear everything from now on."""

        def is_kept(call: str) -> bool:
            return run.journal.get(call) is not None

        await self._database.run(partial(open_log, claim=run.claim, is_kept=is_kept))
        hearing = Hearing(run, self._limits.event_bytes, self._wake)
        self._hearings[run.token] = hearing
        run.before_write.append(partial(self._write_urgent, hearing))
        self._tell(run.claim.session_id)
        await hearing.listen()

    async def attach(self, run: TurnRun) -> None:
        """Hear what the mounted modules say of their own, too."""
        await self._hearings[run.token].listen()

    def commit(self, connection: Connection, run: TurnRun, outcome: Outcome) -> None:
        """Write the rest of the log and how the turn ended."""
        hearing = self._hearings[run.token]
        facts = {"state": outcome.state, "answer": outcome.answer, "error": outcome.error}
        # The writer may be about to write some of these: who comes second finds them there.
        rest = [record for _, record in hearing.pending[:] if record.key]
        append(connection, [*rest, hearing.event(TURN_ENDED, facts, "")])
        forget_live(connection, run.claim)
        hearing.is_committed = True

    async def close(self, run: TurnRun) -> None:
        """Write what a run that did not finish has said, and let go."""
        hearing = self._hearings.get(run.token)
        if hearing is None:
            return
        hearing.stop()
        if not hearing.is_committed:
            await self._write_until(hearing, hearing.taken)
        del self._hearings[run.token]
        self._tell(run.claim.session_id)

    async def aclose(self) -> None:
        """Wait until everything is written."""
        while self._writer is not None:
            await self._round.wait()

    # --- writing ---------------------------------------------------------------------------------

    def _wake(self, hearing: Hearing) -> None:
        if len(hearing.pending) > _MOST_PENDING and any(
            not each.key for _, each in hearing.pending
        ):
            logger.warning("live events given up session=%s", hearing.run.claim.session_id)
            hearing.give_up_live()
        self._start_writer()

    def _tell(self, session_id: str) -> None:
        self._changed.add(session_id)
        self._start_writer()

    def _start_writer(self) -> None:
        if self._writer is None:
            # Not in the context of the turn that happens to be the first to say something.
            self._writer = asyncio.create_task(self._write(), context=Context())

    async def _write_urgent(self, hearing: Hearing) -> None:
        await self._write_until(hearing, hearing.urgent)

    async def _write_until(self, hearing: Hearing, until: int) -> None:
        while hearing.is_waiting(until):
            self._hurry.set()
            self._start_writer()
            await self._round.wait()

    async def _write(self) -> None:
        """Write as long as there is something to write."""
        try:
            while self._changed or any(each.pending for each in self._hearings.values()):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_BATCH_SECONDS):
                        await self._hurry.wait()
                self._hurry.clear()
                await self._write_batch(list(self._hearings.values()))
                self._end_round()
        finally:
            self._writer = None
            self._end_round()

    def _end_round(self) -> None:
        ended = self._round
        self._round = asyncio.Event()
        ended.set()

    async def _write_batch(self, hearings: list[Hearing]) -> None:
        """Write what is pending; what cannot be written together is tried run by run."""
        batches = [(each, each.pending[:_BATCH_RECORDS]) for each in hearings if each.pending]
        changed = self._changed
        self._changed = set()
        if not await self._is_written(batches):
            for each in batches:
                if not await self._is_written([each]):
                    # Without its log, a turn does not continue.
                    each[0].run.end(Suspended(FAULT))
                    each[0].pending = []
        await self._notify(changed | {each.run.claim.session_id for each, _ in batches})
        await self._keep_in_bounds()

    async def _is_written(self, batches: list[tuple[Hearing, list[tuple[int, Record]]]]) -> bool:
        if not batches:
            return True
        records = [record for _, batch in batches for _, record in batch]
        try:
            heads = await self._database.run(partial(append, records=records))
        except Exception:
            logger.exception("log not written runs=%d records=%d", len(batches), len(records))
            return False
        for hearing, batch in batches:
            done = {number for number, _ in batch}
            hearing.pending = [each for each in hearing.pending if each[0] not in done]
            self._check(hearing, heads.get(hearing.run.claim.session_id))
        self._large |= {each for each, head in heads.items() if is_too_large(head, self._limits)}
        return True

    def _check(self, hearing: Hearing, head: Head | None) -> None:
        if head is None or head.epoch != hearing.run.claim.epoch:
            hearing.run.end(Fenced())
            hearing.pending = []

    async def _notify(self, sessions: set[str]) -> None:
        """Tell the readers which logs have grown; one that does not hear it looks by itself."""
        if self._database.is_sqlite or not sessions:
            return

        def work(connection: Connection) -> None:
            for telling in _tellings(sessions):
                execute(
                    connection, "SELECT pg_notify(:channel, :text)", channel=CHANNEL, text=telling
                )

        try:
            # By itself: no transaction that has locks waits for its turn to notify.
            await self._database.run(work)
        except Exception:
            logger.exception("readers not notified sessions=%d", len(sessions))

    async def _keep_in_bounds(self) -> None:
        """Delete what is too much, and now and then what has become too old."""
        large = self._large
        self._large = set()
        try:
            for session_id in large:
                await trim_log(self._database, session_id, self._limits)
            if monotonic() - self._swept_at >= _SWEEP_SECONDS:
                self._swept_at = monotonic()
                await sweep_log(self._database, self._limits)
        except Exception:
            logger.exception("log not kept in bounds sessions=%s", large)


def _tellings(sessions: set[str]) -> Iterator[str]:
    """Yield texts with one session on each line; an empty one is about all of them."""
    text = ""
    for session_id in sorted(sessions):
        if len(session_id.encode()) > _LONGEST_TELLING:
            yield ""
        elif len((text + session_id).encode()) >= _LONGEST_TELLING:
            yield text
            text = session_id
        else:
            text = f"{text}\n{session_id}" if text else session_id
    if text:
        yield text
