"""Delivers signals to the turns of a worker: polls for them and acts on them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections import deque
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, NamedTuple

from amplifier_core import events
from amplifier_kit.turn_events import STEERING_INJECTED, STEERING_WAITING
from amplifier_runtime.database.clock import monotonic
from amplifier_runtime.database.database import Connection, Database, Row, all_of, execute
from amplifier_runtime.signals.approvals import DurableApprovals
from amplifier_runtime.signals.signals import (
    cancel_turn,
    expire_approval,
    overdue_approvals,
    turns_below,
    withdraw_approvals,
)
from amplifier_runtime.turns.claims import Outcome
from amplifier_runtime.turns.turn_run import Host, TurnPart, TurnRun

__all__ = ["SignalWatch"]

logger = logging.getLogger(__name__)

_NAME = "runtime-signals"
_KEPT = "steer:"
_EXPIRY_SECONDS = 1.0


class SignalWatch(TurnPart):
    """Lets the turns of a worker ask questions, be cancelled and be steered from any machine."""

    def __init__(self, *, poll_seconds: float = 0.2) -> None:
        """`poll_seconds` is the longest delay of a signal to a running turn."""
        self._poll_seconds = poll_seconds
        # By run: a worker may begin the next run of a turn before the one that parked it is closed.
        self._runs: dict[str, _TurnSignals] = {}
        self._looked_at = monotonic()
        self._looking = asyncio.Lock()
        self._host: Host
        self._task: asyncio.Task[None]

    async def join(self, host: Host) -> None:
        """Start polling."""
        self._host = host
        self._task = asyncio.create_task(self._listen())

    async def leave(self) -> None:
        """Stop polling."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def prepare(self, run: TurnRun) -> None:
        """Set the session's approval system, and read the signals that came before this run."""
        heard = self._runs[run.token] = _TurnSignals(self._host.database, run)
        await heard.listen()
        run.session.coordinator.approval_system = heard.approvals
        run.gates.append(heard.gate)

    async def attach(self, run: TurnRun) -> None:
        """Deliver the texts that are waiting, and register for later ones."""
        await self._runs[run.token].attach()

    def commit(self, connection: Connection, run: TurnRun, outcome: Outcome) -> None:
        """Mark the texts that are in the turn's history, and withdraw its open questions."""
        self._runs[run.token].commit(connection)
        if outcome.state == "cancelled":
            # Descendants started after the request to cancel, which it did not reach.
            for turn_id in turns_below(connection, run.claim.turn_id):
                cancel_turn(connection, turn_id, immediate=True)

    async def close(self, run: TurnRun) -> None:
        """Drop the run."""
        self._runs.pop(run.token, None)

    async def _listen(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                logger.exception("signals not heard worker=%s", self._host.worker_id)
            await asyncio.sleep(self._poll_seconds)

    async def look(self) -> None:
        """Handle signals now instead of at the next poll; they are in effect when this returns."""
        # One at a time: a second look must not return before the first has taken effect.
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        database = self._host.database
        if monotonic() - self._looked_at >= _EXPIRY_SECONDS:
            self._looked_at = monotonic()
            for session_id, approval_id in await database.run(overdue_approvals):
                expire = partial(expire_approval, session_id=session_id, approval_id=approval_id)
                await database.run(expire)
        if not self._runs:
            return
        for row in await database.run(self._running):
            # Of two runs of a turn, the later one runs: the dict keeps the last.
            turns = {each.turn_id: each for each in self._runs.values()}
            heard = turns.get(row["turn_id"])
            if heard is not None and row["signals"] > heard.signals:
                await heard.listen()
                await heard.act()
                # Last, so that a signal that could not be read is read at the next look.
                heard.signals = row["signals"]

    def _running(self, connection: Connection) -> list[Row]:
        sql = "SELECT turn_id, signals FROM turns WHERE worker_id = :worker AND state = 'running'"
        return [*all_of(connection, sql, worker=self._host.worker_id)]


class _SteeringText(NamedTuple):
    steer_id: str
    text: str


class _TurnSignals:
    """The signals of one run of a turn.

    A steering text is given to the loop after a certain number of model calls, before anything
    follows from their answers. The journal keeps the number, so that a later run gives it at the
    same place and makes the same requests.
    """

    def __init__(self, database: Database, run: TurnRun) -> None:
        self.turn_id = run.claim.turn_id
        self.signals = run.claim.signals
        self.approvals = DurableApprovals(database, run, self.gate)
        self._database = database
        self._run = run
        self._token = run.session.coordinator.cancellation
        self._cancel: str | None = None
        # Whether this run has passed everything that earlier runs journaled.
        self._is_live = run.claim.runs == 1
        journal = run.journal
        calls = journal.starting_with("llm:").values()
        self._calls_kept = max((call["n"] for call in calls if not call["scope"]), default=0)
        self._places = {
            key.removeprefix(_KEPT): entry["after"]
            for key, entry in journal.starting_with(_KEPT).items()
        }
        self._known: set[str] = set()
        self._waiting: deque[_SteeringText] = deque()
        self._given: list[_SteeringText] = []
        self._giving = asyncio.Lock()

    async def listen(self) -> None:
        """Read the cancellation and the steering texts for this turn."""
        claim = self._run.claim

        def work(connection: Connection) -> list[Row]:
            sql = (
                "SELECT t.cancel, s.steer_id, s.text FROM turns t LEFT JOIN steers s "
                "ON s.session_id = t.session_id AND s.turn_id IS NULL "
                "WHERE t.turn_id = :turn ORDER BY s.seq"
            )
            return [*all_of(connection, sql, turn=claim.turn_id)]

        for row in await self._database.run(work):
            self._cancel = row["cancel"]
            if row["steer_id"] is not None and row["steer_id"] not in self._known:
                self._known.add(row["steer_id"])
                self._waiting.append(_SteeringText(row["steer_id"], json.loads(row["text"])))

    async def act(self) -> None:
        """Cancel the running turn if requested; a replaying run is left to `gate`, if possible."""
        is_immediate = self._cancel == "immediate"
        if is_immediate or (self._cancel is not None and self._is_live):
            await self._run.session.coordinator.request_cancel(is_immediate)

    async def gate(self) -> None:
        """End a cancelled turn once the work of earlier runs is in its history."""
        if self._cancel is not None and not self._is_live:
            self._token.request_immediate()
            # The immediate stop interrupts the loop here.
            await asyncio.Event().wait()
        self._is_live = True

    async def attach(self) -> None:
        """Add the texts sent before the turn to the history, and register for later ones."""
        coordinator = self._run.session.coordinator
        context: Any = coordinator.get("context")
        async for said in self._next():
            await context.add_message({"role": "user", "content": said.text})
            facts = {"text": said.text, "count": 1}
            await coordinator.hooks.emit(STEERING_INJECTED, facts)
        listen = partial(coordinator.hooks.register, priority=-sys.maxsize, name=_NAME)
        listen(STEERING_WAITING, self._note_left)
        if coordinator.get_capability("session.steer") is not None:
            for event in (events.PROVIDER_RESPONSE, events.TOOL_POST, events.TOOL_ERROR):
                listen(event, self._give)

    def commit(self, connection: Connection) -> None:
        """Mark the texts as delivered by this turn, and withdraw its open questions."""
        if self.approvals.has_asked or self._run.claim.runs > 1:
            withdraw_approvals(connection, self._run.claim.turn_id)
        for said in self._given:
            execute(
                connection,
                "UPDATE steers SET turn_id = :turn WHERE session_id = :session "
                "AND steer_id = :steer",
                turn=self._run.claim.turn_id,
                session=self._run.claim.session_id,
                steer=said.steer_id,
            )

    async def _give(self, event: str, data: dict[str, Any]) -> None:
        steer: Any = self._run.session.coordinator.get_capability("session.steer")
        async with self._giving:
            async for said in self._next():
                steer(said.text)

    async def _next(self) -> AsyncGenerator[_SteeringText]:
        """Yield the texts that are due at this place; journals the place of each before."""
        run = self._run
        here = self._run.journal.model_calls
        while self._waiting:
            said = self._waiting[0]
            place = self._places.get(said.steer_id)
            # A text that no run has placed waits until the journaled calls are passed: given
            # before, it would change their requests.
            if place is None and here < self._calls_kept or place is not None and place > here:
                return
            if place is None:
                await run.write(_KEPT + said.steer_id, {"after": here})
            self._waiting.popleft()
            yield said
            self._given.append(said)

    async def _note_left(self, event: str, data: dict[str, Any]) -> None:
        """Leave the latest texts to the next turn, because the loop ended before it read them."""
        del self._given[-int(data["count"]) :]
