"""Children as turns of their own: durable, cancellable, placed on any worker."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from amplifier_core import events
from amplifier_core.session import AmplifierSession
from amplifier_foundation.recording.plain import plain_state
from amplifier_foundation.spawn.capabilities import offer_spawning
from amplifier_kit.children.inheritance import inherit
from amplifier_kit.children.remote import RUNNER
from amplifier_kit.children.tasks import DEPTH, TOLD_DEPTH
from amplifier_runtime.ancestry import dismiss, stand_in_for
from amplifier_runtime.child_rows import (
    CHILD,
    ancestors_of,
    child_of,
    conclude,
    end_what_is_due,
    facts_of,
    open_children,
    request_stop,
    start_child,
)
from amplifier_runtime.claims import Outcome, check_fence
from amplifier_runtime.database import Connection, Database, Row, all_of, execute, one_of, read_now
from amplifier_runtime.errors import Fenced
from amplifier_runtime.journal import is_repeatable, scope
from amplifier_runtime.plan_references import clear_keys_in
from amplifier_runtime.turns import TurnPart, TurnRun

if TYPE_CHECKING:
    from amplifier_runtime.worker import Worker

__all__ = ["Children"]

logger = logging.getLogger(__name__)

T = TypeVar("T")
NAME = "runtime-children"
_READ = "read"
# Between two looks at a child that a call waits for.
_LOOK_SECONDS = 0.2


class ChildTurns:
    """The capability `task.runner` of one run: what the model asks for becomes child turns."""

    def __init__(
        self, run: TurnRun, worker: Worker, limits: dict[str, int] | None, *, has_any: bool
    ) -> None:
        self.limits = limits
        self._worker = worker
        self._resting = 0
        self._run = run
        self._database = worker.database
        self._has_any = has_any
        self._requests = 0
        self._started: Counter[str] = Counter()
        kept = run.journal.starting_with("llm:").values()
        self._requests_kept = max((each["n"] for each in kept if not each["scope"]), default=0)

    async def start(self, order: dict[str, Any]) -> dict[str, Any] | str:
        """Submit a child under the key of the call that asks for it, or return why not."""
        session, key = self._run.session, self._key_of(order)
        plan = await self._plan_of(order)
        given = {"plan": plan, "state": plain_state(session.coordinator.session_state)}
        clear = clear_keys_in(plan)
        if clear:
            return f"The agent was not started: its plan has a key in clear at `{clear[0]}`."

        self._has_any = True
        return await self._transact(
            lambda connection: start_child(connection, self._run.claim, key, order, given)
        )

    async def _plan_of(self, order: dict[str, Any]) -> dict[str, Any]:
        """Return the plan of a child; one that is resumed has its own already."""
        if order.get("is_resumed"):
            return {}
        plan = order.get("plan")
        if plan is None:
            fork = self._run.session.fork(order["overlay"])
            plan = fork.config
            await fork.cleanup()
        keys = self._run.keys
        # What a session has is resolved; what is stored refers to keys, as it was written.
        return plan if keys is None else keys.seal(plan)

    def _key_of(self, order: dict[str, Any]) -> str:
        """Return the key of a child: that of the call that asks, and of the order if it has one.

        Code that is run again gives its orders again, so equal ones are counted.
        """
        if not order.get("key"):
            return scope()
        key = f"{scope()}spawn:{order['key']}"
        self._started[key] += 1
        return f"{key}:{self._started[key]}"

    async def tasks(self) -> list[dict[str, Any]]:
        """Return the children of this session."""
        session_id = self._run.claim.session_id
        return await self._database.run(lambda c: facts_of(c, session_id))

    async def wait(self, handle: str, seconds: float | None) -> dict[str, Any]:
        """Return a child when it has ended or the time is up; until then the turn is parked."""
        until = None if seconds is None else await self._until(seconds)

        def work(connection: Connection) -> dict[str, Any] | None:
            check_fence(connection, self._run.claim.session_id, self._run.claim.epoch)
            [facts] = facts_of(connection, self._run.claim.session_id, handle=handle)
            is_ended = facts["stop_reason"] is not None
            if is_ended or (until is not None and until <= read_now(connection)):
                self._note(connection, handle, waiter=None, told=_READ if is_ended else None)
                return facts
            self._note(connection, handle, waiter=self._run.claim.turn_id, until=until)
            return None

        if seconds is None and not is_repeatable():
            return await self._wait_here(handle)
        facts = await self._transact(work)
        if facts is None:
            await self._run.suspend(CHILD)
            raise AssertionError("a suspended run does not go on")
        return facts

    async def _wait_here(self, handle: str) -> dict[str, Any]:
        """Return a child when it has ended, and keep the turn: its call cannot be run again.

        The worker takes other turns in its place, so that the child has one to run in.
        """

        def look(connection: Connection) -> dict[str, Any] | None:
            check_fence(connection, self._run.claim.session_id, self._run.claim.epoch)
            [facts] = facts_of(connection, self._run.claim.session_id, handle=handle)
            if facts["stop_reason"] is None:
                return None
            self._note(connection, handle, waiter=None, told=_READ)
            return facts

        self._rest(1)
        try:
            while True:
                facts = await self._transact(look)
                if facts is not None:
                    return facts
                await asyncio.sleep(_LOOK_SECONDS)
        except asyncio.CancelledError:
            # Whoever waited has given up, as a tool does when its own time is over.
            await asyncio.shield(self.stop(handle))
            raise
        finally:
            self._rest(-1)

    def _rest(self, change: int) -> None:
        """Lend the place of this run to others while at least one of its calls waits here."""
        before = self._resting > 0
        self._resting += change
        self._worker.resting += (self._resting > 0) - before
        self._worker.wake()

    async def _until(self, seconds: float) -> int:
        """Return when a wait is over: the moment that its first run has named."""
        key = f"child:wait:{scope()}"
        kept = self._run.journal.get(key)
        if kept is not None:
            return kept["until"]
        until = await self._database.run(read_now) + int(seconds * 1000)
        if seconds > 0:
            await self._run.write(key, {"until": until})
        return until

    def _note(
        self,
        connection: Connection,
        handle: str,
        *,
        waiter: str | None,
        until: int | None = None,
        told: str | None = None,
    ) -> None:
        execute(
            connection,
            "UPDATE children SET waiter = :waiter, waited_until = :until, "
            "told = COALESCE(told, :told) WHERE parent_session_id = :session AND handle = :handle",
            session=self._run.claim.session_id,
            handle=handle,
            waiter=waiter,
            until=until,
            told=told,
        )

    async def stop(self, handle: str) -> None:
        """Have a child ended, wherever it runs."""

        def work(connection: Connection) -> None:
            check_fence(connection, self._run.claim.session_id, self._run.claim.epoch)
            children = open_children(connection, self._run.claim.session_id)
            meant = [each for each in children if each["handle"] == handle]
            request_stop(connection, meant, "cancelled")

        await self._transact(work)

    async def news(self) -> list[dict[str, Any]]:
        """Return who has ended unread; a request that is repeated brings the same news again."""
        self._requests += 1
        if not self._has_any:
            return []
        claim, told = self._run.claim, f"{self._run.claim.turn_id}/{self._requests}"

        def work(connection: Connection) -> list[dict[str, Any]]:
            if self._requests > self._requests_kept:
                check_fence(connection, claim.session_id, claim.epoch)
                execute(
                    connection,
                    "UPDATE children SET told = :told WHERE parent_session_id = :session "
                    "AND told IS NULL AND stop_reason IS NOT NULL",
                    session=claim.session_id,
                    told=told,
                )
            return facts_of(connection, claim.session_id, told=told)

        return await self._transact(work)

    async def _transact(self, work: Callable[[Connection], T]) -> T:
        self._run.check()
        try:
            return await self._database.run(work)
        except Fenced as fenced:
            raise self._run.end(fenced) from None


class _LiveChild:
    """What this worker knows of a turn that it runs."""

    def __init__(self, run: TurnRun, child: Row | None) -> None:
        self.run = run
        self.child = child
        self.stand_ins: list[AmplifierSession] = []
        self.turn_end: str | None = None

    async def note_turn_end(self, event: str, data: dict[str, Any]) -> None:
        """Keep what the loop says of how the turn ended."""
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
    """Offers `task.runner` to every turn, and looks after the turns that are children.

    A child that is told to stop and has not ended after `grace_seconds` is cut off.
    """

    def __init__(self, *, look_seconds: float = 0.5, grace_seconds: float = 10.0) -> None:
        self._look_seconds = look_seconds
        self._grace_seconds = grace_seconds
        # By run: the next run of a turn may begin here before the one that parked it is closed.
        self._live: dict[str, _LiveChild] = {}
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None

    async def join(self, worker: Worker) -> None:
        """Begin to look after children."""
        self._worker = worker
        self._task = asyncio.create_task(self._look_after(worker.database))

    async def leave(self) -> None:
        """Leave them to the other workers."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def prepare(self, run: TurnRun) -> None:
        """Offer the runner, and bring down what a child has from those above it."""
        assert self._worker is not None
        session_id = run.claim.session_id

        def read(connection: Connection) -> tuple[Row | None, list[Row], bool]:
            sql = "SELECT 1 FROM children WHERE parent_session_id = :session LIMIT 1"
            has_any = one_of(connection, sql, session=session_id) is not None
            # Whoever submitted this turn: a session that was made as a child stays one.
            child = child_of(connection, session_id)
            return child, ancestors_of(connection, child), has_any

        child, ancestors, has_any = await self._worker.database.run(read)
        limits = None if child is None else json.loads(child["limits"])
        live = self._live[run.token] = _LiveChild(run, child)
        coordinator = run.session.coordinator
        runner = ChildTurns(run, self._worker, limits, has_any=has_any)
        coordinator.register_capability(RUNNER, runner)
        offer_spawning(coordinator)
        if child is not None:
            coordinator.register_capability(DEPTH, child["depth"])
            told = child["told_depth"]
            depth = child["depth"] if told is None else told
            coordinator.register_capability(TOLD_DEPTH, depth)
            live.stand_ins = await stand_in_for(ancestors, run.keys)
            inherit(run.session, live.stand_ins[-1])

    async def attach(self, run: TurnRun) -> None:
        """Let the guards of those above ask and show where the child does."""
        live, coordinator = self._live[run.token], run.session.coordinator
        for session in live.stand_ins:
            session.coordinator.approval_system = coordinator.approval_system
            session.coordinator.display_system = coordinator.display_system
        if live.child is not None:
            coordinator.hooks.register(events.ORCHESTRATOR_COMPLETE, live.note_turn_end, name=NAME)

    def commit(self, connection: Connection, run: TurnRun, outcome: Outcome) -> None:
        """Tell who waits for this child; end the children that nobody will wait for any more."""
        live, claim = self._live[run.token], run.claim
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
            waited = [each for each in mine if not each["background"]]
            request_stop(connection, waited, "parent_ended")

    async def close(self, run: TurnRun) -> None:
        """Let go of those who stood in for the ancestors."""
        live = self._live.pop(run.token, None)
        if live is not None:
            await dismiss(live.stand_ins)

    async def _look_after(self, database: Database) -> None:
        while True:
            try:
                await database.run(lambda c: end_what_is_due(c, self._grace_seconds))
                await self._stop_mine(database)
            except Exception:
                logger.exception("children not looked after")
            await asyncio.sleep(self._look_seconds)

    async def _stop_mine(self, database: Database) -> None:
        """Tell the children that run here to stop: after their step, then at once."""
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
