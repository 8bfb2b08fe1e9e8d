"""How signals reach the turns of a worker: its part that listens, and acts on what it hears."""

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
from amplifier_runtime.signals.asking import DurableApprovals
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
    """Lets every turn of a worker ask, be cancelled and be steered from any machine."""

    def __init__(self, *, poll_seconds: float = 0.2) -> None:
        """`poll_seconds` is how long a signal to a running turn may be on its way."""
        self._poll_seconds = poll_seconds
        # By run: a worker may begin the next run of a turn before the one that parked it is closed.
        self._runs: dict[str, _TurnSignals] = {}
        self._looked_at = monotonic()
        self._looking = asyncio.Lock()
        self._host: Host
        self._task: asyncio.Task[None]

    async def join(self, host: Host) -> None:
        """Begin to listen."""
        self._host = host
        self._task = asyncio.create_task(self._listen())

    async def leave(self) -> None:
        """Listen no longer."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def prepare(self, run: TurnRun) -> None:
        """Give the session its approval system, and hear what came before this run."""
        heard = self._runs[run.token] = _TurnSignals(self._host.database, run)
        await heard.listen()
        run.session.coordinator.approval_system = heard.approvals
        run.gates.append(heard.gate)

    async def attach(self, run: TurnRun) -> None:
        """Say what is there to be said at the beginning, and be there for what comes later."""
        await self._runs[run.token].attach()

    def commit(self, connection: Connection, run: TurnRun, outcome: Outcome) -> None:
        """Write with the turn's end which texts are in its history, and that nobody asks more."""
        self._runs[run.token].commit(connection)
        if outcome.state == "cancelled":
            for turn_id in turns_below(connection, run.claim.turn_id):
                cancel_turn(connection, turn_id, immediate=True)

    async def close(self, run: TurnRun) -> None:
        """Forget the run."""
        self._runs.pop(run.token, None)

    async def _listen(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                logger.exception("signals not heard worker=%s", self._host.worker_id)
            await asyncio.sleep(self._poll_seconds)

    async def look(self) -> None:
        """Look for signals now instead of at the next poll; when it returns, they are in effect."""
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
            # Of two runs of a turn, the later one is the one that runs.
            turns = {each.turn_id: each for each in self._runs.values()}
            heard = turns.get(row["turn_id"])
            if heard is not None and row["signals"] > heard.signals:
                await heard.listen()
                await heard.act()
                # Last: a signal that could not be read now is read at the next look.
                heard.signals = row["signals"]

    def _running(self, connection: Connection) -> list[Row]:
        sql = "SELECT turn_id, signals FROM turns WHERE worker_id = :worker AND state = 'running'"
        return [*all_of(connection, sql, worker=self._host.worker_id)]


class _Text(NamedTuple):
    steer_id: str
    text: str


class _TurnSignals:
    """What one run of a turn hears from outside.

    A text is given to the loop at a place that a later run finds again: behind a certain number of
    model calls, before anything else comes of their answers. So it has to be kept at which.
    """

    def __init__(self, database: Database, run: TurnRun) -> None:
        self.turn_id = run.claim.turn_id
        self.signals = run.claim.signals
        self.approvals = DurableApprovals(database, run, self.gate)
        self._database = database
        self._run = run
        self._token = run.session.coordinator.cancellation
        self._cancel: str | None = None
        # Whether all that earlier runs kept is behind this one.
        self._is_live = run.claim.runs == 1
        journal = run.journal
        calls = journal.starting_with("llm:").values()
        self._calls_kept = max((call["n"] for call in calls if not call["scope"]), default=0)
        self._places = {
            key.removeprefix(_KEPT): entry["after"]
            for key, entry in journal.starting_with(_KEPT).items()
        }
        self._known: set[str] = set()
        self._waiting: deque[_Text] = deque()
        self._given: list[_Text] = []
        self._giving = asyncio.Lock()

    async def listen(self) -> None:
        """Read what there is for this turn."""
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
                self._waiting.append(_Text(row["steer_id"], json.loads(row["text"])))

    async def act(self) -> None:
        """Cancel the running turn, if that is wanted; what can wait for `gate` does."""
        is_immediate = self._cancel == "immediate"
        if is_immediate or (self._cancel is not None and self._is_live):
            await self._run.session.coordinator.request_cancel(is_immediate)

    async def gate(self) -> None:
        """End a turn that was cancelled before, where what earlier runs did is in its history."""
        if self._cancel is not None and not self._is_live:
            self._token.request_immediate()
            await asyncio.Event().wait()
        self._is_live = True

    async def attach(self) -> None:
        """Put what was said before the turn into the history, and listen for places for more."""
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
        """Note whose history the texts are in, and that no answer is needed any more."""
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

    async def _next(self) -> AsyncGenerator[_Text]:
        """Yield the texts whose place is here, each kept there and noted as given."""
        run = self._run
        here = self._run.journal.model_calls
        while self._waiting:
            said = self._waiting[0]
            place = self._places.get(said.steer_id)
            if place is None and here < self._calls_kept or place is not None and place > here:
                return
            if place is None:
                await run.write(_KEPT + said.steer_id, {"after": here})
            self._waiting.popleft()
            yield said
            self._given.append(said)

    async def _note_left(self, event: str, data: dict[str, Any]) -> None:
        """Hear that the loop ends before the latest texts were read: the next turn gets them."""
        del self._given[-int(data["count"]) :]
