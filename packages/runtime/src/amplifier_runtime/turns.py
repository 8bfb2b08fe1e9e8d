"""A turn as a workflow: one run of it, from its session at rest to its one result."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from amplifier_core.session import AmplifierSession
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.recording.error_codec import plain_error
from amplifier_foundation.recording.plain import plain, plain_state
from amplifier_kit.secrets.errors import scrub_error
from amplifier_kit.secrets.known import CAPABILITY as KNOWN_SECRETS
from amplifier_kit.secrets.messages import MessageScrubber
from amplifier_runtime.claims import Claim, Claims, Outcome
from amplifier_runtime.database import Connection
from amplifier_runtime.engine import Engine, Write
from amplifier_runtime.errors import DurableError, Fenced, RunEnded, Suspended
from amplifier_runtime.ids import new_id
from amplifier_runtime.journal import Journal, scope
from amplifier_runtime.plan_keys import PlanKeys
from amplifier_runtime.steps import stand_between

if TYPE_CHECKING:
    from amplifier_runtime.worker import Worker

__all__ = [
    "DRAIN",
    "FAULT",
    "RESUMED",
    "Boundary",
    "Gate",
    "OpenSession",
    "TurnPart",
    "TurnRun",
    "TurnRunner",
]

logger = logging.getLogger(__name__)

OpenSession = Callable[[Claim], AmplifierSession]
"""Makes the session that a turn runs in, not yet initialized."""

Boundary = Callable[[str], None]
"""Is told of every durable write of a turn, before and after it."""

Gate = Callable[[], Awaitable[None]]
"""Holds a call back, or ends the turn before it is made."""

# What an earlier run showed and did not keep is superseded by what follows this event.
RESUMED = "turn:resumed"
# Reasons to suspend after which the turn is for any worker to go on with, at once or soon.
DRAIN, FAULT = "drain", "fault"
_FAULT_DELAY_SECONDS = 2.0
# What a plan raises that nothing can be made of; a worker that tried again would fail again.
_WRONG_PLAN = (FoundationError, ValueError, TypeError, AttributeError, LookupError)
_NO_PLAN: dict[str, Any] = {"session": {"orchestrator": "none", "context": "none"}}


class TurnPart:
    """What takes part in every turn of a worker: the log, approvals, limits, children.

    Each method may be left as it is. They are called in this order; `commit` inside the
    transaction that ends the turn, and only then.
    """

    async def join(self, worker: Worker) -> None:
        """Get ready with the worker, before it takes its first turn."""

    async def leave(self) -> None:
        """Let go of the worker, when it has no turns any more."""

    async def prepare(self, run: TurnRun) -> None:
        """Get ready before the session's modules are mounted."""

    async def attach(self, run: TurnRun) -> None:
        """Get ready after they are mounted, with the history in place."""

    def commit(self, connection: Connection, run: TurnRun, outcome: Outcome) -> None:
        """Write what belongs to the end of the turn."""

    async def close(self, run: TurnRun) -> None:
        """Let go, however the run ended."""


class TurnRun:
    """One run of one turn; `token` tells it from every other run."""

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
        # Awaited before every call that no earlier run has kept.
        self.gates: list[Gate] = []
        # Awaited before every write: what must not be later than the journal goes first.
        self.before_write: list[Gate] = []
        # Awaited between the intent of an unsafe call and its effect.
        self.standing: Gate | None = None
        # Why there is no session to be made of the plan; the turn fails with it.
        self.plan_error: Exception | None = None
        self._write = write
        self._boundary = boundary
        self._ended: RunEnded | None = None
        self._stopping: str | None = None
        self._in_flight = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    def check(self) -> None:
        """Raise what ended this run, if something did; no loop can make it go on."""
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
        """Go on only if this worker still counts: between a write and an effect it may have slept.

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


class TurnRunner:
    """Runs claimed turns inside their workflows."""

    def __init__(
        self,
        claims: Claims,
        *,
        open_session: OpenSession,
        parts: Sequence[TurnPart],
        boundary: Boundary,
        standing: Gate,
        find_keys: Callable[[Claim], PlanKeys],
    ) -> None:
        self._claims = claims
        self._find_keys = find_keys
        self._open_session = open_session
        self._parts = parts
        self._boundary = boundary
        self._standing = standing
        self.runs: dict[str, TurnRun] = {}

    async def run(self, claim: Claim, engine: Engine) -> None:
        """Run a claimed turn to its end, or raise why it is not ended.

        Only RunEnded and cancellations leave here: the engine takes any other exception for the
        turn's result.
        """
        try:
            await self._run(claim, engine)
        except Exception:
            # Not even giving it back worked; the worker does that when it can.
            logger.exception("turn neither run nor given back turn=%s", claim.turn_id)
            raise Suspended(FAULT) from None

    async def _run(self, claim: Claim, engine: Engine) -> None:
        try:
            keys = self._find_keys(claim)
            try:
                plan = await keys.resolve(claim.plan)
            except DurableError as error:
                await self._refuse(claim, error)
                return
            show_again = keys.blank_in_logs()
            try:
                await self._run_to_the_end(await self._open(claim, plan, keys, engine))
            finally:
                show_again()
        except Suspended as suspended:
            raise await self._put_aside(claim, suspended) from None
        except Fenced:
            logger.warning("turn lost to another worker turn=%s", claim.turn_id)
            await self._claims.give_back(claim)
            raise
        except Exception:
            logger.exception("turn not run turn=%s", claim.turn_id)
            raise await self._put_aside(claim, Suspended(FAULT)) from None
        except asyncio.CancelledError:
            await asyncio.shield(self._claims.give_back(claim))
            raise

    async def _open(
        self, claim: Claim, plan: dict[str, Any], keys: PlanKeys, engine: Engine
    ) -> TurnRun:
        """Return a run in the session of its plan, or one that fails with what the plan raises.

        `plan` has the keys in it that the one of `claim` refers to.
        """
        entries = await engine.entries(claim.turn_id) if claim.runs > 1 else {}
        plan_error: Exception | None = None
        try:
            session = self._open_session(replace(claim, plan=plan))
        except _WRONG_PLAN as error:
            # Every part of the turn sees a plan without anything in it, and its end is written.
            plan_error = error
            claim = replace(claim, plan=_NO_PLAN)
            session = self._open_session(claim)
        # Whatever a module says of its configuration: no event shows these.
        session.coordinator.register_capability(KNOWN_SECRETS, keys.values)
        journal = Journal(entries, claim.epoch)
        run = TurnRun(claim, session, journal, engine.writer(), self._boundary)
        run.plan_error = plan_error
        run.standing = self._standing
        run.keys = keys
        return run

    async def _refuse(self, claim: Claim, error: DurableError) -> None:
        """End a turn whose keys are not to be had, with what to do as its error."""
        logger.error("turn has no keys turn=%s cause=%s", claim.turn_id, error)
        outcome = Outcome("failed", None, plain_error(error), claim.messages, claim.state)
        await self._claims.finish(claim, outcome)

    async def _run_to_the_end(self, run: TurnRun) -> None:
        claim = run.claim
        self.runs[claim.turn_id] = run
        try:
            self._boundary("begun")
            outcome = await self._play(run)
            self._boundary("before finish")
            parts = [partial(_commit, part, run, outcome) for part in self._parts]
            await self._claims.finish(claim, outcome, parts)
            self._boundary("after finish")
        except Suspended as suspended:
            if suspended.reason not in (DRAIN, FAULT):
                self._boundary("before park")
                await self._claims.park(claim, suspended.reason, run.signals_seen)
                self._boundary("after park")
            raise
        finally:
            # The next run of the turn may have begun here, right after this one parked it.
            if self.runs.get(claim.turn_id) is run:
                del self.runs[claim.turn_id]
            for part in self._parts:
                await part.close(run)

    async def _play(self, run: TurnRun) -> Outcome:
        """Run the loop and return what came of it; an error of the turn is its outcome."""
        session, error, answer = run.session, None, None
        coordinator = session.coordinator
        coordinator.session_state.update(copy.deepcopy(run.claim.state))
        try:
            for part in self._parts:
                await part.prepare(run)
            try:
                await self._mount(run)
                answer = await session.execute(run.claim.prompt)
            except Exception as raised:
                scrub_error(raised, MessageScrubber(coordinator).scrub_text)
                logger.exception("turn failed turn=%s", run.claim.turn_id)
                error = plain_error(raised)
            except asyncio.CancelledError:
                # A loop that lets an immediate stop pass instead of ending by it.
                if not coordinator.cancellation.is_immediate or _is_cancelled():
                    raise
            run.check()
            return await _outcome_of(run, answer, error)
        finally:
            await session.cleanup()

    async def _mount(self, run: TurnRun) -> None:
        session = run.session
        if run.plan_error is not None:
            raise run.plan_error
        await session.initialize()
        context = session.coordinator.get("context")
        if context is not None and run.claim.messages:
            await context.set_messages(copy.deepcopy(run.claim.messages))
        stand_between(run)
        for part in self._parts:
            await part.attach(run)
        if run.claim.runs > 1:
            facts = {"turn_id": run.claim.turn_id, "run": run.claim.runs, "epoch": run.claim.epoch}
            await session.coordinator.hooks.emit(RESUMED, facts)

    async def _put_aside(self, claim: Claim, suspended: Suspended) -> Suspended:
        if suspended.reason == FAULT:
            delay = _FAULT_DELAY_SECONDS
            await self._claims.give_back(claim, delay_seconds=delay, crashed=True)
        elif suspended.reason == DRAIN:
            await self._claims.give_back(claim)
        return suspended


def _commit(part: TurnPart, run: TurnRun, outcome: Outcome, connection: Connection) -> None:
    part.commit(connection, run, outcome)


def _is_cancelled() -> bool:
    """Whether the worker, and not the session, wants this task to stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _outcome_of(run: TurnRun, answer: str | None, error: dict[str, Any] | None) -> Outcome:
    coordinator = run.session.coordinator
    context: Any = coordinator.get("context")
    messages = run.claim.messages if context is None else await context.get_messages()
    state = "done" if error is None else "failed"
    if coordinator.cancellation.is_cancelled:
        state = "cancelled"
    return Outcome(state, answer, error, plain(messages), plain_state(coordinator.session_state))
