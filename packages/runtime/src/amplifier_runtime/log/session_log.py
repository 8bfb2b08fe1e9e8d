"""The log as a part of every turn: written in small batches, with notifications for readers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from amplifier_journal.recorder import Recorder
from amplifier_kit.secrets.messages import MessageScrubber
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
from amplifier_runtime.log.live_events import LiveEvents
from amplifier_runtime.log.log_rows import Head, LogRow, append, forget_live, open_log
from amplifier_runtime.log.reader import CHANNEL
from amplifier_runtime.log.run_log import HISTORY_KINDS, RunLog, content_digest
from amplifier_runtime.turns.claims import Claim, Outcome
from amplifier_runtime.turns.turn_run import FAULT, TurnPart, TurnRun

logger = logging.getLogger(__name__)

_BATCH_SECONDS = 0.005
_BATCH_RECORDS = 1_000
_MOST_PENDING = 4_000
_SWEEP_SECONDS = 60.0
# PostgreSQL limits the payload of a notification to 8,000 bytes.
_LONGEST_NOTIFICATION = 7_000
# Outside of the durable steps, so that answers from the journal are recorded like new ones.
_OUTSIDE_THE_JOURNAL = sys.maxsize - 1

_BATCH = 1_000
# Trim to this share of a limit, so that the next event does not exceed it again.
_LEFT = 0.9
_DAY_MS = 24 * 60 * 60 * 1000
_IS_OPEN = (
    "turn_id IN (SELECT turn_id FROM turns WHERE session_id = :session "
    "AND state IN ('waiting', 'ready', 'running', 'parked'))"
)


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How large and old a log may get; live events do not count.

    The oldest records of a log that is larger or older are deleted; a reader that has not read
    them gets a marker.
    """

    session_rows: int = 100_000
    session_bytes: int = 64 * 1024 * 1024
    days: float | None = 30.0


def is_too_large(head: Head, limits: LogLimits) -> bool:
    """Whether a log exceeds its size limits."""
    return head.row_count > limits.session_rows or head.byte_count > limits.session_bytes


async def trim_log(database: Database, session_id: str, limits: LogLimits) -> int:
    """Delete the events of one log that exceed its limits; returns how many."""
    gone = 0
    while True:
        batch = await database.run(partial(_trim_batch, session_id=session_id, limits=limits))
        gone += batch
        if batch < _BATCH:
            return gone


async def sweep_log(database: Database, limits: LogLimits) -> int:
    """Delete the events of all logs that are too old, and live events of ended turns."""

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
    # `_cut` left the keys of turns that could run again; those have ended.
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
    """Return how many of the oldest events to delete, and their total size."""
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
    """Delete the events up to `last`; of a turn that may run again, all but the keys.

    Without its key, an event would be written again by the next run.
    """
    which = {"session": session_id, "last": last}
    sql = "DELETE FROM events WHERE session_id = :session AND seq <= :last AND NOT "
    execute(connection, sql + _IS_OPEN, **which)
    execute(
        connection,
        "UPDATE events SET data = '', size = 0 WHERE session_id = :session AND seq <= :last "
        "AND size > 0",
        **which,
    )


class _NoScreen:
    """A display system for an unattended process; the recorder keeps what modules show."""

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        """Write the message to the process log only."""
        logger.info("shown source=%s level=%s: %s", source, level, message)


class _RunParts(NamedTuple):
    """The log objects of one run, and whether the log had the session's history before it."""

    log: RunLog
    live: LiveEvents
    has_history: bool


class _Logged(NamedTuple):
    """What the log has of a session when a run of it begins."""

    digests: list[str]
    unchanged: dict[str, str]
    has_history: bool


class SessionLog(TurnPart):
    """Keeps the log of every turn of a worker: the recorder's records, and live events.

    A record is written once, however often its turn is run. Progress, such as the pieces of an
    answer, is live: readers get it, and it is deleted when the turn ends. When a run is lost, the
    next one records which live events are void.
    """

    def __init__(self, database: Database, limits: LogLimits | None = None) -> None:
        self._database = database
        self._limits = limits or LogLimits()
        self._runs: dict[str, _RunParts] = {}
        self._changed: set[str] = set()
        self._large: set[str] = set()
        self._writer: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._round = asyncio.Event()
        self._swept_at = monotonic()

    # --- the parts of a turn ---------------------------------------------------------------------

    async def prepare(self, run: TurnRun) -> None:
        """Void the live events of lost runs, and start recording."""
        logged = await self._database.run(partial(_open, run=run))
        coordinator = run.session.coordinator
        if coordinator.display_system is None:
            # Without one, messages of modules would reach only the worker's stderr.
            coordinator.display_system = _NoScreen()
        scrubber = MessageScrubber(coordinator)
        log = RunLog(run, scrubber, self._wake)
        log.unchanged = logged.unchanged
        run.recorder = Recorder(
            coordinator,
            log,
            scrubber,
            opening=run.claim.ordinal,
            turn=run.claim.ordinal - 1,
            known=logged.digests,
            priority=_OUTSIDE_THE_JOURNAL,
            name_call=log.name_call,
        )
        live = LiveEvents(log)
        self._runs[run.token] = _RunParts(log, live, logged.has_history)
        run.before_write.append(partial(self._write_urgent, log))
        self._tell(run.claim.session_id)
        await run.recorder.listen()
        await live.listen()

    async def attach(self, run: TurnRun) -> None:
        """Interpose the recorder, and open the log."""
        parts = self._runs[run.token]
        recorder = run.recorder
        assert recorder is not None
        await parts.live.listen()
        await recorder.attach(resumed=run.claim.ordinal > 1)
        if run.claim.messages and not parts.has_history:
            # An earlier version logged no messages, or the retention limits have deleted them.
            await recorder.note_messages(run.claim.messages, reason="earlier")

    async def start(self, run: TurnRun) -> None:
        """Record the prompt, after the steering that was sent between turns."""
        assert run.recorder is not None
        await run.recorder.begin_turn(run.claim.content)

    async def conclude(self, run: TurnRun, outcome: Outcome) -> None:
        """Prepare the last records, which are written with the end of the turn."""
        log = self._runs[run.token].log
        recorder = run.recorder
        assert recorder is not None
        if run.claim.runs > 1:
            # `_history_left` reads what all runs wrote, this one included.
            await self._write_until(log, log.taken)
            left = await self._database.run(partial(_history_left, claim=run.claim))
            log.closing = []
            _correct_history(log, left)
        else:
            log.closing = []
        if not recorder.is_open and run.error is not None:
            recorder.note_failed_opening(run.error)
            await recorder.begin_turn(run.claim.content)
        is_cancelled = outcome.state == "cancelled"
        reason = "cancelled" if is_cancelled else None
        await recorder.end_turn(outcome.answer, run.error, stop_reason=reason)

    def commit(self, connection: Connection, run: TurnRun, outcome: Outcome) -> None:
        """Write the remaining records, and delete the live events."""
        log = self._runs[run.token].log
        append(connection, log.rows_at_the_end())
        forget_live(connection, run.claim)
        log.is_committed = True

    async def close(self, run: TurnRun) -> None:
        """Write what is left of a run that did not finish, and stop recording."""
        parts = self._runs.get(run.token)
        if parts is None:
            return
        parts.live.stop()
        if run.recorder is not None:
            run.recorder.detach()
        if not parts.log.is_committed:
            await self._write_until(parts.log, parts.log.taken)
        del self._runs[run.token]
        self._tell(run.claim.session_id)

    async def aclose(self) -> None:
        """Wait until everything is written."""
        while self._writer is not None:
            await self._round.wait()

    # --- writing ---------------------------------------------------------------------------------

    def _logs(self) -> list[RunLog]:
        return [each.log for each in self._runs.values()]

    def _wake(self, log: RunLog) -> None:
        if len(log.pending) > _MOST_PENDING and any(not each.key for _, each in log.pending):
            logger.warning("live events given up session=%s", log.run.claim.session_id)
            log.give_up_live()
        self._start_writer()

    def _tell(self, session_id: str) -> None:
        self._changed.add(session_id)
        self._start_writer()

    def _start_writer(self) -> None:
        if self._writer is None:
            # In an empty context, not in that of the turn that happens to log first.
            self._writer = asyncio.create_task(self._write(), context=Context())

    async def _write_urgent(self, log: RunLog) -> None:
        await self._write_until(log, log.urgent)

    async def _write_until(self, log: RunLog, until: int) -> None:
        while log.is_waiting(until):
            self._hurry.set()
            self._start_writer()
            await self._round.wait()

    async def _write(self) -> None:
        """Write batches until nothing is pending."""
        try:
            while self._changed or any(each.pending for each in self._logs()):
                # Collects a batch for a few milliseconds, unless a turn waits for its records.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_BATCH_SECONDS):
                        await self._hurry.wait()
                self._hurry.clear()
                await self._write_batch(self._logs())
                self._end_round()
        finally:
            self._writer = None
            self._end_round()

    def _end_round(self) -> None:
        ended = self._round
        self._round = asyncio.Event()
        ended.set()

    async def _write_batch(self, logs: list[RunLog]) -> None:
        """Write what is pending; if that fails, each run by itself, to find the one at fault."""
        batches = [(each, each.pending[:_BATCH_RECORDS]) for each in logs if each.pending]
        changed = self._changed
        self._changed = set()
        if not await self._is_written(batches):
            for each in batches:
                if not await self._is_written([each]):
                    # A turn must not continue without its log.
                    each[0].run.end(Suspended(FAULT))
                    each[0].pending = []
        await self._notify(changed | {each.run.claim.session_id for each, _ in batches})
        await self._keep_in_bounds()

    async def _is_written(self, batches: list[tuple[RunLog, list[tuple[int, LogRow]]]]) -> bool:
        if not batches:
            return True
        records = [record for _, batch in batches for _, record in batch]
        try:
            heads = await self._database.run(partial(append, records=records))
        except Exception:
            logger.exception("log not written runs=%d records=%d", len(batches), len(records))
            return False
        for log, batch in batches:
            done = {number for number, _ in batch}
            log.pending = [each for each in log.pending if each[0] not in done]
            self._check(log, heads.get(log.run.claim.session_id))
        self._large |= {each for each, head in heads.items() if is_too_large(head, self._limits)}
        return True

    def _check(self, log: RunLog, head: Head | None) -> None:
        if head is None or head.epoch != log.run.claim.epoch:
            log.run.end(Fenced())
            log.pending = []

    async def _notify(self, sessions: set[str]) -> None:
        """Notify readers which logs have grown; one that misses it polls."""
        if self._database.is_sqlite or not sessions:
            return

        def work(connection: Connection) -> None:
            for each in _notifications(sessions):
                execute(connection, "SELECT pg_notify(:channel, :text)", channel=CHANNEL, text=each)

        try:
            # In its own transaction: PostgreSQL serializes commits that notify, and one that holds
            # locks on sessions would make others wait in that queue.
            await self._database.run(work)
        except Exception:
            logger.exception("readers not notified sessions=%d", len(sessions))

    async def _keep_in_bounds(self) -> None:
        """Trim logs that are too large, and once a minute those that are too old."""
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


def _open(connection: Connection, run: TurnRun) -> _Logged:
    """Open the log for a run, and return what it has of the session."""

    def is_kept(call: str) -> bool:
        return run.journal.get(call) is not None

    claim = run.claim
    open_log(connection, claim, is_kept)
    which = {"session": claim.session_id, "turn": claim.turn_id}
    parts = all_of(
        connection,
        "SELECT name, key FROM events WHERE session_id = :session AND size > 0 "
        "AND name IN ('part', 'message')",
        session=claim.session_id,
    )
    unchanged: dict[str, str] = {}
    for kind in ("session.opened", "mounted"):
        last = one_of(
            connection,
            "SELECT data FROM events WHERE session_id = :session AND turn_id <> :turn "
            "AND name = :kind AND size > 0 ORDER BY seq DESC LIMIT 1",
            kind=kind,
            **which,
        )
        if last is not None:
            unchanged[kind] = content_digest(json.loads(last["data"]))
    return _Logged([_digest_in(row) for row in parts], unchanged, "session.opened" in unchanged)


def _digest_in(row: Row) -> str:
    """Return the digest in the key of a part or of a message."""
    key: str = row["key"]
    if row["name"] == "message":
        key = key.rpartition(":")[0]
    return key.rpartition(":")[2]


def _history_left(connection: Connection, claim: Claim) -> list[tuple[str, str]]:
    """Return key and kind of the history records that all runs of a turn wrote, in order."""
    kinds = ", ".join(f"'{each}'" for each in HISTORY_KINDS)
    sql = f"SELECT key, name FROM events WHERE turn_id = :turn AND name IN ({kinds}) ORDER BY seq"
    return [(row["key"], row["name"]) for row in all_of(connection, sql, turn=claim.turn_id)]


def _correct_history(log: RunLog, left: list[tuple[str, str]]) -> None:
    """Record the actual history and state, if an earlier run diverged from this one.

    The records of that run stay in the log, and its messages would count as history otherwise.
    """
    claim = log.run.claim
    messages = [(key, kind) for key, kind, _ in log.history if kind != "state"]
    if [each for each in left if each[1] != "state"] != messages:
        now = list(claim.messages)
        for _, kind, data in log.history:
            if kind == "message":
                now.append(data["message"])
            elif kind == "messages":
                now = list(data["messages"])
        log.append("messages", {"messages": now, "reason": "resumed", "turn": claim.ordinal})
    states = [(key, data) for key, kind, data in log.history if kind == "state"]
    written = [key for key, kind in left if kind == "state"]
    if states and written and written[-1] != states[-1][0]:
        log.append("state", states[-1][1])


def _notifications(sessions: set[str]) -> Iterator[str]:
    """Yield payloads with one session per line; an empty one stands for all sessions."""
    text = ""
    for session_id in sorted(sessions):
        if len(session_id.encode()) > _LONGEST_NOTIFICATION:
            yield ""
        elif len((text + session_id).encode()) >= _LONGEST_NOTIFICATION:
            yield text
            text = session_id
        else:
            text = f"{text}\n{session_id}" if text else session_id
    if text:
        yield text
