"""The capability by which tools give work to child agents: each becomes a turn of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from amplifier_journal.plain import plain_state
from amplifier_journal.wrappers import call_of
from amplifier_kit.trace_context import current_trace_context
from amplifier_runtime.children.child_rows import (
    CHILD,
    facts_of,
    open_children,
    request_stop,
    start_child,
)
from amplifier_runtime.database.database import Connection, execute, read_now
from amplifier_runtime.database.plan_references import clear_keys_in
from amplifier_runtime.errors import Fenced
from amplifier_runtime.turns.claims import check_fence
from amplifier_runtime.turns.journal import is_repeatable, scope
from amplifier_runtime.turns.turn_run import Host, TurnRun

__all__ = ["ChildTurns"]

T = TypeVar("T")
_READ = "read"
# How often a call that cannot be parked polls its child.
_LOOK_SECONDS = 0.2


class ChildTurns:
    """The capability `task.runner` of one run: starts child agents as turns of their own."""

    def __init__(
        self, run: TurnRun, host: Host, limits: dict[str, int] | None, *, has_any: bool
    ) -> None:
        self.limits = limits
        self._host = host
        self._resting = 0
        self._run = run
        self._database = host.database
        self._has_any = has_any
        self._requests = 0
        self._started: Counter[str] = Counter()
        kept = run.journal.starting_with("llm:").values()
        self._requests_kept = max((each["n"] for each in kept if not each["scope"]), default=0)

    async def start(self, order: dict[str, Any]) -> dict[str, Any] | str:
        """Submit a child under the key of the call that asks for it, or return why not."""
        session = self._run.session
        key = self._key_of(order)
        plan = await self._plan_of(order)
        given = {
            "plan": plan,
            "state": plain_state(session.coordinator.session_state),
            # The span of the call that asks, if calls have spans here.
            "trace_context": current_trace_context()
            or self._run.claim.details.get("trace_context"),
        }
        # Options of the caller are in this plan, which `create_session` has not checked.
        clear = clear_keys_in(plan)
        if clear:
            return f"The agent was not started: its plan has a key in clear at `{clear[0]}`."

        self._has_any = True
        started = await self._transact(
            lambda connection: start_child(connection, self._run.claim, key, order, given)
        )
        if isinstance(started, dict):
            inside = call_of(self._run.recorder)
            self._run.note("child", {"session_id": started["child_session_id"], "inside": inside})
        return started

    async def _plan_of(self, order: dict[str, Any]) -> dict[str, Any]:
        """Return the plan of a child; empty for a resumed one, whose session has its plan."""
        if order.get("is_resumed"):
            return {}
        plan = order.get("plan")
        if plan is None:
            fork = self._run.session.fork(order["overlay"])
            plan = fork.config
            # Only the merged configuration is needed; the child is mounted by its own worker.
            await fork.cleanup()
        keys = self._run.keys
        # The plan in memory has the keys themselves; the stored one must only refer to them.
        if keys is None:
            return plan
        return keys.seal(plan)

    def _key_of(self, order: dict[str, Any]) -> str:
        """Return the key of a child: that of the call that asks, and of the order if it has one.

        A call that is run again gives the same orders again. Equal orders of one call are numbered.
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
        """Return a child when it has ended or the time is up; the turn is parked meanwhile."""
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
            raise AssertionError("a suspended run does not continue")
        self._note_ended(facts)
        return facts

    async def _wait_here(self, handle: str) -> dict[str, Any]:
        """Return a child when it has ended, without parking: an unsafe call cannot be run again.

        The worker takes another turn in place of this one, so that the child has a slot to run in.
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
                    self._note_ended(facts)
                    return facts
                await asyncio.sleep(_LOOK_SECONDS)
        except asyncio.CancelledError:
            # The caller has given up, for example at its own timeout: nobody will read the child.
            await asyncio.shield(self.stop(handle))
            raise
        finally:
            self._rest(-1)

    def _rest(self, change: int) -> None:
        """Lend the slot of this run to other turns while at least one of its calls waits here."""
        before = self._resting > 0
        self._resting += change
        self._host.resting += (self._resting > 0) - before
        self._host.wake()

    async def _until(self, seconds: float) -> int:
        """Return when a wait is over, as its first run decided: a re-run does not extend it."""
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
        """Stop a child, on whichever worker it runs."""

        def work(connection: Connection) -> None:
            check_fence(connection, self._run.claim.session_id, self._run.claim.epoch)
            children = open_children(connection, self._run.claim.session_id)
            meant = [each for each in children if each["handle"] == handle]
            request_stop(connection, meant, "cancelled")

        await self._transact(work)

    async def news(self) -> list[dict[str, Any]]:
        """Return the children that ended unread; a repeated request returns the same ones again."""
        self._requests += 1
        if not self._has_any:
            return []
        claim = self._run.claim
        told = f"{self._run.claim.turn_id}/{self._requests}"

        def work(connection: Connection) -> list[dict[str, Any]]:
            # A request that is in the journal must be rebuilt with the news it had. With more of
            # them it would be another request, and the run would diverge from its journal.
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

        ended = await self._transact(work)
        for facts in ended:
            self._note_ended(facts)
        return ended

    def _note_ended(self, facts: dict[str, Any]) -> None:
        if facts["stop_reason"] is not None:
            self._run.note("child.ended", {"session_id": facts["child_session_id"]})

    async def _transact(self, work: Callable[[Connection], T]) -> T:
        self._run.check()
        try:
            return await self._database.run(work)
        except Fenced as fenced:
            raise self._run.end(fenced) from None
