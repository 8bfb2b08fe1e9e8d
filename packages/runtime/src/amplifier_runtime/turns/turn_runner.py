"""Runs a claimed turn inside its workflow: opens the session, runs the loop, writes the end."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from amplifier_core.session import AmplifierSession
from amplifier_foundation.errors import FoundationError
from amplifier_journal.plain import plain, plain_error, plain_state
from amplifier_kit.secrets.errors import scrub_error
from amplifier_kit.secrets.known import CAPABILITY as KNOWN_SECRETS
from amplifier_kit.secrets.messages import MessageScrubber
from amplifier_kit.trace_context import TRACE_CONTEXT
from amplifier_kit.turn_events import OUTPUT_SCHEMA
from amplifier_runtime.database.database import Connection
from amplifier_runtime.database.engine import Engine
from amplifier_runtime.errors import DurableError, Fenced, Suspended
from amplifier_runtime.turns.claims import Claim, Claims, Outcome
from amplifier_runtime.turns.journal import Journal
from amplifier_runtime.turns.plan_keys import PlanKeys
from amplifier_runtime.turns.steps import install_durable_steps
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
# What an invalid plan raises. The turn fails, because every other worker would fail as well.
_WRONG_PLAN = (FoundationError, ValueError, TypeError, AttributeError, LookupError)
# For an invalid plan: a session is needed for the log and the end of the turn.
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
        fence_check: Gate,
        find_keys: Callable[[Claim], PlanKeys],
    ) -> None:
        self._claims = claims
        self._find_keys = find_keys
        self._open_session = open_session
        self._parts = parts
        self._boundary = boundary
        self._check_fence = fence_check
        self.runs: dict[str, TurnRun] = {}

    async def run(self, claim: Claim, engine: Engine) -> None:
        """Run a claimed turn to its end, or raise why it has not ended.

        Raises only RunEnded and cancellations: the engine takes any other exception for the
        turn's result.
        """
        try:
            await self._run(claim, engine)
        except Exception:
            # Giving it back failed too; `_give_back_lost` of the worker does it later.
            logger.exception("turn neither run nor given back turn=%s", claim.turn_id)
            raise Suspended(FAULT) from None

    async def _run(self, claim: Claim, engine: Engine) -> None:
        try:
            keys = self._find_keys(claim)
            plan = await _resolved(claim, keys)
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
            # Shielded: a second cancellation must not leave the turn with a worker that is leaving.
            await asyncio.shield(self._claims.give_back(claim))
            raise

    async def _open(
        self, claim: Claim, plan: dict[str, Any] | DurableError, keys: PlanKeys, engine: Engine
    ) -> TurnRun:
        """Return a run in the session of its plan, or one that fails with the plan's error.

        `plan` is the plan of `claim` with its references replaced by keys, or why that failed.
        """
        if claim.runs > 1:
            entries = await engine.entries(claim.turn_id)
        else:
            entries = {}
        plan_error: Exception | None = None
        try:
            if isinstance(plan, DurableError):
                raise plan
            session = self._open_session(replace(claim, plan=plan))
        except (DurableError, *_WRONG_PLAN) as error:
            # All parts see an empty plan, so that the turn ends like any other that failed.
            plan_error = error
            claim = replace(claim, plan=_NO_PLAN)
            session = self._open_session(claim)
        # Scrubbed from all events, whether or not a module declares its configuration as secret.
        session.coordinator.register_capability(KNOWN_SECRETS, keys.values)
        session.coordinator.register_capability(OUTPUT_SCHEMA, claim.details.get("output_schema"))
        session.coordinator.register_capability(TRACE_CONTEXT, claim.details.get("trace_context"))
        journal = Journal(entries, claim.epoch)
        run = TurnRun(claim, session, journal, engine.writer(), self._boundary)
        run.plan_error = plan_error
        run.fence_check = self._check_fence
        run.keys = keys
        return run

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
        """Run the loop and return the outcome; an error of the turn is an outcome, too."""
        session = run.session
        error = None
        answer = None
        coordinator = session.coordinator
        # A copy, because `finish` compares the new state with that of the claim.
        coordinator.session_state.update(copy.deepcopy(run.claim.state))
        try:
            for part in self._parts:
                await part.prepare(run)
            try:
                await self._mount(run)
                # The kernel passes a prompt to the loop as it is, and ours take blocks.
                answer = await session.execute(cast("str", run.claim.content))
            except Exception as raised:
                scrub_error(raised, MessageScrubber(coordinator).scrub_text)
                logger.exception("turn failed turn=%s", run.claim.turn_id)
                run.error = raised
                error = plain_error(raised)
            except asyncio.CancelledError:
                # Our own immediate stop, which the loop let through. Anything else is the worker's.
                if not coordinator.cancellation.is_immediate or _is_cancelled():
                    raise
            run.check()
            outcome = await _outcome_of(run, answer, error)
            for part in self._parts:
                # Before `cleanup`: the last records ask modules for their state and checkpoints.
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
        install_durable_steps(run)
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


async def _resolved(claim: Claim, keys: PlanKeys) -> dict[str, Any] | DurableError:
    """Return the plan of a turn with its keys, or why they were not found."""
    try:
        return await keys.resolve(claim.plan)
    except DurableError as error:
        logger.error("turn has no keys turn=%s cause=%s", claim.turn_id, error)
        return error


def _commit(part: TurnPart, run: TurnRun, outcome: Outcome, connection: Connection) -> None:
    part.commit(connection, run, outcome)


def _is_cancelled() -> bool:
    """Whether the worker, and not the session, has cancelled this task."""
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
