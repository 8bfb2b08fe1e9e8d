"""A turn as a workflow: one run of it, from its session at rest to its one result."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from amplifier_core.session import AmplifierSession
from amplifier_foundation.errors import FoundationError
from amplifier_journal.plain import plain, plain_error, plain_state
from amplifier_kit.secrets.errors import scrub_error
from amplifier_kit.secrets.known import CAPABILITY as KNOWN_SECRETS
from amplifier_kit.secrets.messages import MessageScrubber
from amplifier_runtime.database.database import Connection
from amplifier_runtime.database.engine import Engine
from amplifier_runtime.errors import DurableError, Fenced, Suspended
from amplifier_runtime.turns.claims import Claim, Claims, Outcome
from amplifier_runtime.turns.journal import Journal
from amplifier_runtime.turns.plan_keys import PlanKeys
from amplifier_runtime.turns.steps import stand_between
from amplifier_runtime.turns.turn_run import (
    DRAIN,
    FAULT,
    RESUMED,
    Boundary,
    Gate,
    TurnPart,
    TurnRun,
)

__all__ = ["OpenSession", "TurnRunner"]

logger = logging.getLogger(__name__)

OpenSession = Callable[[Claim], AmplifierSession]
"""Makes the session that a turn runs in, not yet initialized."""

_FAULT_DELAY_SECONDS = 2.0
# What a plan raises that nothing can be made of; a worker that tried again would fail again.
_WRONG_PLAN = (FoundationError, ValueError, TypeError, AttributeError, LookupError)
_NO_PLAN: dict[str, Any] = {"session": {"orchestrator": "none", "context": "none"}}


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
        if claim.runs > 1:
            entries = await engine.entries(claim.turn_id)
        else:
            entries = {}
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
        session = run.session
        error = None
        answer = None
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
                run.error = raised
                error = plain_error(raised)
            except asyncio.CancelledError:
                # A loop that lets an immediate stop pass instead of ending by it.
                if not coordinator.cancellation.is_immediate or _is_cancelled():
                    raise
            run.check()
            outcome = await _outcome_of(run, answer, error)
            for part in self._parts:
                await part.conclude(run, outcome)
            return outcome
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
        for part in self._parts:
            await part.start(run)
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
    if context is None:
        messages = run.claim.messages
    else:
        messages = await context.get_messages()
    state = "done" if error is None else "failed"
    if coordinator.cancellation.is_cancelled:
        state = "cancelled"
    return Outcome(state, answer, error, plain(messages), plain_state(coordinator.session_state))
