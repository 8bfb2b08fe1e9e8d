"""Children as turns of their own: durable, cancellable, placed on any worker."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable
from typing import Any

from amplifier_core import events
from amplifier_core.session import AmplifierSession
from amplifier_foundation.guards import with_required_guards
from amplifier_foundation.spawn.capabilities import offer_spawning
from amplifier_kit.children.inheritance import inherit
from amplifier_kit.children.remote import RUNNER
from amplifier_kit.children.tasks import DEPTH, TOLD_DEPTH
from amplifier_kit.trace_context import TRACE_CONTEXT
from amplifier_runtime.children.child_rows import (
    ancestors_of,
    child_of,
    conclude,
    end_what_is_due,
    open_children,
    request_stop,
)
from amplifier_runtime.children.child_turns import ChildTurns
from amplifier_runtime.database.database import Connection, Database, Row, all_of, one_of
from amplifier_runtime.errors import MissingKeyError, SecretsError
from amplifier_runtime.turns.claims import Outcome
from amplifier_runtime.turns.plan_keys import PlanKeys
from amplifier_runtime.turns.turn_run import Host, TurnPart, TurnRun

__all__ = ["Children"]

logger = logging.getLogger(__name__)

NAME = "runtime-children"


class _LiveChild:
    """A turn that runs on this worker, with its `children` row if it is a child."""

    def __init__(self, run: TurnRun, child: Row | None) -> None:
        self.run = run
        self.child = child
        self.turn_end: str | None = None

    async def note_turn_end(self, event: str, data: dict[str, Any]) -> None:
        """Keep the reason that the loop gives for the end of the turn."""
        reason = data.get("stop_reason") or data.get("status")
        self.turn_end = "completed" if reason == "success" else reason

    def stop_reason(self, outcome: Outcome, stop: str | None) -> str:
        """Return how the turn of a child ended, in the words of the kit."""
        if outcome.state == "failed":
            return "error"
        if outcome.state == "cancelled":
            return stop or "cancelled"
        return self.turn_end or "completed"


class Children(TurnPart):
    """Offers `task.runner` to every turn, and supervises the turns that are children.

    A child that is asked to stop and has not ended after `grace_seconds` is cut off.
    """

    def __init__(self, *, look_seconds: float = 0.5, grace_seconds: float = 10.0) -> None:
        self._look_seconds = look_seconds
        self._grace_seconds = grace_seconds
        # By run: the next run of a turn may begin here before the one that parked it is closed.
        self._live: dict[str, _LiveChild] = {}
        self._host: Host | None = None
        self._task: asyncio.Task[None] | None = None

    async def join(self, host: Host) -> None:
        """Start supervising children."""
        self._host = host
        self._task = asyncio.create_task(self._look_after(host.database))

    async def leave(self) -> None:
        """Stop supervising; the other workers continue."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def prepare(self, run: TurnRun) -> None:
        """Offer the runner, and let a child inherit from its ancestors."""
        assert self._host is not None
        session_id = run.claim.session_id

        def read(connection: Connection) -> tuple[Row | None, list[Row], bool]:
            sql = "SELECT 1 FROM children WHERE parent_session_id = :session LIMIT 1"
            has_any = one_of(connection, sql, session=session_id) is not None
            # Also if a client submitted this turn: a child session keeps its depth and guards.
            child = child_of(connection, session_id)
            return child, ancestors_of(connection, child), has_any

        child, above, has_any = await self._host.database.run(read)
        limits = None if child is None else json.loads(child["limits"])
        self._live[run.token] = _LiveChild(run, child)
        coordinator = run.session.coordinator
        runner = ChildTurns(run, self._host, limits, has_any=has_any)
        coordinator.register_capability(RUNNER, runner)
        offer_spawning(coordinator)
        if child is not None:
            coordinator.register_capability(DEPTH, child["depth"])
            told = child["told_depth"]
            depth = child["depth"] if told is None else told
            coordinator.register_capability(TOLD_DEPTH, depth)
            await _inherit_from(above, run)
            # A guard that the child inherits reads it from the session that mounted the guard.
            trace_context = run.claim.details.get("trace_context")
            for ancestor in run.ancestors:
                ancestor.coordinator.register_capability(TRACE_CONTEXT, trace_context)

    async def attach(self, run: TurnRun) -> None:
        """Let the guards of the ancestors ask and display through the child's own systems."""
        live = self._live[run.token]
        coordinator = run.session.coordinator
        for session in run.ancestors:
            session.coordinator.approval_system = coordinator.approval_system
            session.coordinator.display_system = coordinator.display_system
        if live.child is not None:
            coordinator.hooks.register(events.ORCHESTRATOR_COMPLETE, live.note_turn_end, name=NAME)

    def commit(self, connection: Connection, run: TurnRun, outcome: Outcome) -> None:
        """Conclude this turn if it is a child, and stop its children that nobody will wait for."""
        live = self._live[run.token]
        claim = run.claim
        if live.child is not None:
            sql = "SELECT stop FROM children WHERE turn_id = :turn"
            row = one_of(connection, sql, turn=claim.turn_id)
            stop = None if row is None else row["stop"]
            conclude(connection, claim.turn_id, live.stop_reason(outcome, stop))
        children = open_children(connection, claim.session_id)
        mine = [each for each in children if each["parent_turn_id"] == claim.turn_id]
        if outcome.state == "cancelled":
            request_stop(connection, mine, "cancelled")
        else:
            # Background children outlive the turn: the session's next turn is told of their end.
            waited = [each for each in mine if not each["background"]]
            request_stop(connection, waited, "parent_ended")

    async def close(self, run: TurnRun) -> None:
        """Close the sessions that were opened for the ancestors."""
        self._live.pop(run.token, None)
        await _close_ancestors(run.ancestors)

    async def _look_after(self, database: Database) -> None:
        while True:
            try:
                await database.run(lambda c: end_what_is_due(c, self._grace_seconds))
                await self._stop_mine(database)
            except Exception:
                logger.exception("children not looked after")
            await asyncio.sleep(self._look_seconds)

    async def _stop_mine(self, database: Database) -> None:
        """Ask the children that run here to stop: first after their step, then immediately."""
        mine = {
            live.run.claim.turn_id: live for live in self._live.values() if live.child is not None
        }
        if not mine:
            return

        def read(connection: Connection) -> list[str]:
            sql = "SELECT turn_id FROM children WHERE stop IS NOT NULL AND stop_reason IS NULL"
            return [row["turn_id"] for row in all_of(connection, sql)]

        for turn_id in await database.run(read):
            live = mine.get(turn_id)
            if live is not None:
                coordinator = live.run.session.coordinator
                is_told = coordinator.cancellation.is_cancelled
                await coordinator.request_cancel(immediate=is_told)


async def _inherit_from(above: Iterable[Row], run: TurnRun) -> None:
    if run.plan_error is not None:
        # The turn fails before it needs a guard.
        return
    try:
        run.ancestors = await _open_ancestors(above, run.keys)
    except (MissingKeyError, SecretsError) as error:
        run.plan_error = error
    else:
        inherit(run.session, run.ancestors[-1])


async def _open_ancestors(rows: Iterable[Row], keys: PlanKeys | None) -> list[AmplifierSession]:
    """Return a session for each ancestor, the root first, with its hooks and its state.

    The real ones are idle or run on another worker. Each is rebuilt here as a fork of the one above
    it, so that the kernel hands guards and interposers down. They run no turn, so they are opened
    without tools and providers.
    """
    opened: list[AmplifierSession] = []
    try:
        for row in rows:
            recorded = with_required_guards(json.loads(row["plan"]))
            plan: dict[str, Any] = {**recorded, "tools": [], "providers": []}
            if keys is not None:
                plan = await keys.resolve(plan)
            name = row["session_name"]
            if opened:
                session = opened[-1].fork(plan, session_id=name)
            else:
                session = AmplifierSession(
                    plan, session_id=name, parent_id=row["parent_id"], is_resumed=True
                )
            opened.append(session)
            session.coordinator.session_state.update(json.loads(row["state"]))
            await session.initialize()
    # A cancellation too: sessions that are open have started what only `cleanup` ends.
    except BaseException:
        await _close_ancestors(opened)
        raise
    return opened


async def _close_ancestors(opened: list[AmplifierSession]) -> None:
    for session in reversed(opened):
        await session.cleanup()
