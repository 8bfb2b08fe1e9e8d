"""One run of one turn: how it is stopped, what it journals, and the parts of the worker in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from amplifier_core.session import AmplifierSession
from amplifier_journal.recorder import Recorder
from amplifier_runtime.database.database import Connection, Database
from amplifier_runtime.database.engine import Write
from amplifier_runtime.database.row_keys import new_id
from amplifier_runtime.errors import Fenced, RunEnded, Suspended
from amplifier_runtime.turns.claims import Claim, Outcome
from amplifier_runtime.turns.journal import Journal, scope
from amplifier_runtime.turns.plan_keys import PlanKeys

__all__ = ["DRAIN", "FAULT", "RESUMED", "Boundary", "Gate", "Host", "TurnPart", "TurnRun"]

logger = logging.getLogger(__name__)

Boundary = Callable[[str], None]
"""Is called at every durable write of a turn, before and after it."""

Gate = Callable[[], Awaitable[None]]
"""Delays a call, or ends the turn before it is made."""

# Live output that an earlier run did not journal is superseded by what follows this event.
RESUMED = "turn:resumed"
# Reasons to suspend after which any worker may continue the turn: immediately, or after a delay.
DRAIN = "drain"
FAULT = "fault"


class Host(Protocol):
    """What a part can use of its worker."""

    @property
    def worker_id(self) -> str:
        """The key of the worker's row."""
        ...

    @property
    def database(self) -> Database:
        """The database of its turns."""
        ...

    # How many of its turns only wait for a child. Their slots are given to other turns, or a worker
    # with one slot would wait for a child that it cannot run.
    resting: int

    def wake(self) -> None:
        """Look for turns now instead of at the next poll."""
        ...

    def leave(self) -> None:
        """Drain the worker and end it."""
        ...


class TurnPart:
    """A feature that takes part in every turn of a worker: log, approvals, limits, children.

    All methods are optional. They are called in this order; `commit` only in the transaction that
    ends the turn, which may be retried.
    """

    async def join(self, host: Host) -> None:
        """Start with the worker, before it takes its first turn."""

    async def leave(self) -> None:
        """Stop, when the worker has no turns any more."""

    async def prepare(self, run: TurnRun) -> None:
        """Prepare the session before its modules are mounted."""

    async def attach(self, run: TurnRun) -> None:
        """Prepare the session after its modules are mounted and its history is loaded."""

    async def start(self, run: TurnRun) -> None:
        """Act last before the loop runs."""

    async def conclude(self, run: TurnRun, outcome: Outcome) -> None:
        """Prepare the transaction that ends the turn, while the modules are mounted."""

    def commit(self, connection: Connection, run: TurnRun, outcome: Outcome) -> None:
        """Write what belongs to the end of the turn."""

    async def close(self, run: TurnRun) -> None:
        """Release what belongs to the run, however it ended."""


class TurnRun:
    """One run of one turn; `token` distinguishes it from every other run."""

    def __init__(
        self,
        claim: Claim,
        session: AmplifierSession,
        journal: Journal,
        write: Write,
        boundary: Boundary,
    ) -> None:
        self.claim = claim
        self.session = session
        self.journal = journal
        self.token = new_id("run")
        # How many signals the turn had when it was claimed. After another, `park` makes the turn
        # ready instead: at worst it runs once more than needed, but no signal is lost.
        self.signals_seen = claim.signals
        # Resolves the keys that plans refer to; None if plans are used as they are.
        self.keys: PlanKeys | None = None
        # The ancestors' sessions, root first, opened here for their hooks and their state.
        self.ancestors: list[AmplifierSession] = []
        # Awaited before every call that is not in the journal.
        self.gates: list[Gate] = []
        # Awaited before every journal write, for what must be durable before it.
        self.before_write: list[Gate] = []
        # Awaited between the intent of an unsafe call and its effect.
        self.fence_check: Gate | None = None
        # Why the plan is invalid; the turn fails with it.
        self.plan_error: Exception | None = None
        # The error of a failed turn.
        self.error: Exception | None = None
        # Writes the session's log; None on a worker without a log.
        self.recorder: Recorder | None = None
        self._write = write
        self._boundary = boundary
        self._ended: RunEnded | None = None
        self._stopping: str | None = None
        self._in_flight = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """Write one record of what the runtime itself does."""
        if self.recorder is not None:
            self.recorder.note(kind, data)

    def check(self) -> None:
        """Raise what ended this run, if it has ended, even if a loop swallowed it before."""
        if self._ended is not None:
            raise self._ended

    @property
    def is_ended(self) -> bool:
        """Whether no further call may begin."""
        return self._ended is not None

    def end(self, ended: RunEnded) -> RunEnded:
        """Let no further call begin; returns what to raise."""
        self._ended = self._ended or ended
        return self._ended

    def reach(self, boundary: str) -> None:
        """Report a durable write that is not made by the journal."""
        self._boundary(boundary)

    def stop(self, reason: str) -> None:
        """Suspend the run at its next step, when the calls in flight are journaled."""
        self._stopping = self._stopping or reason

    async def suspend(self, reason: str) -> None:
        """Suspend the run here, once the other calls in flight have finished and are journaled."""
        self.stop(reason)
        # Inside a call, which counts as in flight itself and would wait for its own end.
        own = 1 if scope() else 0
        self._count(-own)
        try:
            await self._leave()
        finally:
            self._count(own)

    def _count(self, change: int) -> None:
        self._in_flight += change
        if self._in_flight > 0:
            self._quiet.clear()
        else:
            self._quiet.set()

    async def _leave(self) -> None:
        await self._quiet.wait()
        self.check()
        raise self.end(Suspended(self._stopping or DRAIN))

    @asynccontextmanager
    async def admit_call(self) -> AsyncGenerator[None]:
        """Let one call through, unless the run is to stop here."""
        if scope():
            # Inside another call, which has to finish and is counted already.
            yield
            return
        for gate in self.gates:
            await gate()
        if self._stopping is not None:
            await self._leave()
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    async def ensure_not_fenced(self) -> None:
        """Wait until this worker is known to be alive: it may have been paused during a write.

        Raises:
            Fenced: another worker has claimed the turn.
        """
        if self.fence_check is not None:
            await self.fence_check()
        self.check()

    async def write(self, key: str, value: Any) -> None:
        """Journal a value, durably when this returns.

        Raises:
            Fenced: another worker has claimed the turn.
            Suspended: the journal cannot be written; the turn has to be run again.
        """
        for gate in self.before_write:
            await gate()
        self.check()
        self._boundary(f"before {key}")
        try:
            await self._write(key, value)
        except Fenced as fenced:
            raise self.end(fenced) from None
        except Exception:
            logger.exception("journal not written turn=%s key=%s", self.claim.turn_id, key)
            raise self.end(Suspended(FAULT)) from None
        self._boundary(f"after {key}")
