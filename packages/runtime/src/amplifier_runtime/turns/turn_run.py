"""One run of one turn: what may stop it, what it writes, and the parts that take part in it."""

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

# What an earlier run showed and did not keep is superseded by what follows this event.
RESUMED = "turn:resumed"
# Reasons to suspend after which any worker may continue the turn, immediately or soon.
DRAIN = "drain"
FAULT = "fault"


class Host(Protocol):
    """What a part may use of the worker that it joins."""

    @property
    def worker_id(self) -> str:
        """The key of the worker's row."""
        ...

    @property
    def database(self) -> Database:
        """The database that its turns are in."""
        ...

    # How many of its turns only wait for a child, which may need their place to run in.
    resting: int

    def wake(self) -> None:
        """Look for turns now instead of at the next poll."""
        ...

    def leave(self) -> None:
        """End the worker in good order."""
        ...


class TurnPart:
    """What takes part in every turn of a worker: the log, approvals, limits, children.

    Each method may be left as it is. They are called in this order; `commit` inside the
    transaction that ends the turn, and only then.
    """

    async def join(self, host: Host) -> None:
        """Get ready with the worker, before it takes its first turn."""

    async def leave(self) -> None:
        """Let go of the worker, when it has no turns any more."""

    async def prepare(self, run: TurnRun) -> None:
        """Get ready before the session's modules are mounted."""

    async def attach(self, run: TurnRun) -> None:
        """Get ready after they are mounted, with the history in place."""

    async def start(self, run: TurnRun) -> None:
        """Do the last thing before the loop runs."""

    async def conclude(self, run: TurnRun, outcome: Outcome) -> None:
        """Get ready for the transaction that ends the turn, while the modules are mounted."""

    def commit(self, connection: Connection, run: TurnRun, outcome: Outcome) -> None:
        """Write what belongs to the end of the turn."""

    async def close(self, run: TurnRun) -> None:
        """Let go, however the run ended."""


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
        # How many signals this run has seen; a part that reads signals keeps it up to date.
        self.signals_seen = claim.signals
        # What the plan refers to; None where plans are used as they are.
        self.keys: PlanKeys | None = None
        # The sessions above this one, the root first: opened here for their hooks and their state.
        self.ancestors: list[AmplifierSession] = []
        # Awaited before every call that no earlier run has kept.
        self.gates: list[Gate] = []
        # Awaited before every write: what must not be later than the journal goes first.
        self.before_write: list[Gate] = []
        # Awaited between the intent of an unsafe call and its effect.
        self.standing: Gate | None = None
        # Why there is no session to be made of the plan; the turn fails with it.
        self.plan_error: Exception | None = None
        # What the turn failed with.
        self.error: Exception | None = None
        # Writes the session's log; None on a worker without one.
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
        """Raise what ended this run, if something did; no loop can make it continue."""
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
        """Announce a durable write that is not the journal's."""
        self._boundary(boundary)

    def stop(self, reason: str) -> None:
        """Suspend the run at its next step, when the calls in flight are kept."""
        self._stopping = self._stopping or reason

    async def suspend(self, reason: str) -> None:
        """Suspend the run here; the calls in flight beside this one finish and are kept first."""
        self.stop(reason)
        # Inside a call, that one is in flight itself: nobody waits for itself.
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
    async def passage(self) -> AsyncGenerator[None]:
        """Let one call through, unless the run is to stop here."""
        if scope():
            # Inside another call, which is to finish: nobody waits for itself.
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

    async def stand(self) -> None:
        """Continue only if this worker still counts: after a write it may have slept.

        Raises:
            Fenced: the turn is somebody else's.
        """
        if self.standing is not None:
            await self.standing()
        self.check()

    async def write(self, key: str, value: Any) -> None:
        """Journal a value, durably when this returns.

        Raises:
            Fenced: the turn is somebody else's.
            Suspended: the journal cannot be written; the turn is to be tried again.
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
