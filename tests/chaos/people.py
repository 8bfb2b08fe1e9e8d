"""Who uses the fleet: clients that submit and read along, and a person who decides."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.limits.budgets import Budgets
from amplifier_runtime.log.reader import LogEntry, LogReader
from amplifier_runtime.signals.signals import Signals
from chaos.script import SessionScript, TurnScript

_LOOK_SECONDS = 0.2
_LONGEST_READING = 40
TOKEN_LIMIT, USD_LIMIT = 2_000_000, Decimal(2)


def plan_of(session: SessionScript) -> dict[str, Any]:
    """Return the mount plan of a session; the model and the tools come with the worker."""
    return {
        "session": {"orchestrator": session.loop, "context": "context-simple"},
        "tools": [{"module": "tool-task"}],
        "agents": {"helper": {"description": "Looks."}},
    }


@dataclass
class View:
    """What a reader has got by going on from its cursor again and again."""

    cursor: str = ""
    seqs: list[int] = field(default_factory=list[int])
    shown: list[int] = field(default_factory=list[int])
    reconnects: int = 0
    ended: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])

    def take(self, entry: LogEntry) -> None:
        """Get one entry."""
        self.cursor = entry.cursor
        if entry.is_live:
            self.shown.append(entry.number)
            return
        self.seqs.append(entry.seq)
        if entry.name == "turn.ended":
            self.end_of(entry.turn_id).set()

    def end_of(self, turn_id: str) -> asyncio.Event:
        """Return what is set when the end of a turn was read."""
        return self.ended.setdefault(turn_id, asyncio.Event())


class People:
    """Everybody outside of the fleet; knows which turns there are and which have ended."""

    def __init__(self, database: Database, seed: int, sessions: list[SessionScript]) -> None:
        self.views: dict[str, View] = {}
        self.scripts: dict[str, TurnScript] = {}
        self.complaints: list[str] = []
        self.finished = 0
        self._database = database
        self._seed = seed
        self._sessions = sessions
        self._reader = LogReader(database)
        self._total = sum(len(each.turns) for each in sessions)

    def progress(self) -> float:
        """Return which share of the turns has ended."""
        return self.finished / self._total

    async def use(self, width: int) -> None:
        """Take every session through its turns, `width` of them at a time."""
        room = asyncio.Semaphore(width)
        deciding = [
            asyncio.create_task(self._decide(tenant))
            for tenant in sorted({each.tenant_id for each in self._sessions})
        ]
        try:
            async with asyncio.TaskGroup() as group:
                for session in self._sessions:
                    await room.acquire()
                    task = group.create_task(self._play(session))
                    task.add_done_callback(lambda _: room.release())
        finally:
            for task in deciding:
                task.cancel()
            await asyncio.gather(*deciding, return_exceptions=True)

    async def _play(self, session: SessionScript) -> None:
        client = Client(self._database, session.tenant_id)
        await client.create_session(session.session_id, plan_of(session))
        if session.call_limit is not None:
            await Budgets(self._database).set_tree(
                session.tenant_id,
                session.session_id,
                calls=session.call_limit,
                tokens=TOKEN_LIMIT,
                usd=USD_LIMIT,
            )
        view = self.views[session.session_id] = View()
        reading = asyncio.create_task(self._read(session, view))
        try:
            for script in session.turns:
                await self._take_turn(client, session, script, view)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _take_turn(
        self, client: Client, session: SessionScript, script: TurnScript, view: View
    ) -> None:
        key = f"turn-{script.number}"
        turn = await client.submit(session.session_id, script.prompt, idempotency_key=key)
        self.scripts[turn.turn_id] = script
        # A client that did not get the answer asks again.
        again = await client.submit(session.session_id, script.prompt, idempotency_key=key)
        if again.turn_id != turn.turn_id:
            self.complaints.append(f"key {key} gave two turns")
        await view.end_of(turn.turn_id).wait()
        self.finished += 1

    async def _read(self, session: SessionScript, view: View) -> None:
        """Follow a log; let go and come back with the cursor after every few entries."""
        dice = random.Random(f"{self._seed}/{session.session_id}/reader")
        while True:
            left = dice.randint(1, _LONGEST_READING)
            entries = self._reader.tail(session.tenant_id, session.session_id, after=view.cursor)
            async for entry in entries:
                view.take(entry)
                left -= 1
                if left == 0:
                    break
            await entries.aclose()
            view.reconnects += 1

    async def _decide(self, tenant_id: str) -> None:
        """Answer every question of a tenant, each after a while."""
        signals = Signals(self._database, tenant_id)
        known: set[str] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                for approval in await signals.approvals(limit=1000):
                    script = self.scripts.get(approval.turn_id)
                    if script is not None and approval.approval_id not in known:
                        known.add(approval.approval_id)
                        group.create_task(self._answer(signals, approval.approval_id, script))
                await asyncio.sleep(_LOOK_SECONDS)

    async def _answer(self, signals: Signals, approval_id: str, script: TurnScript) -> None:
        await asyncio.sleep(script.thought_seconds)
        said = "Allow" if script.is_allowed else "Deny"
        await signals.answer(approval_id, said, by="person")
        await signals.answer(approval_id, said, by="person")
