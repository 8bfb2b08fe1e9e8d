"""The log as a part of every turn: written in small batches, and announced to readers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from contextvars import Context
from functools import partial

from amplifier_runtime.database.clock import monotonic
from amplifier_runtime.database.database import Connection, Database, execute
from amplifier_runtime.errors import Fenced, Suspended
from amplifier_runtime.log.event_rows import Head, Record, append, forget_live, open_log
from amplifier_runtime.log.hearing import Hearing
from amplifier_runtime.log.news import CHANNEL
from amplifier_runtime.log.retention import LogLimits, is_too_large, sweep_log, trim_log
from amplifier_runtime.turns.claims import Outcome
from amplifier_runtime.turns.turn_run import FAULT, TurnPart, TurnRun

__all__ = ["TURN_ENDED", "EventLog"]

logger = logging.getLogger(__name__)

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
