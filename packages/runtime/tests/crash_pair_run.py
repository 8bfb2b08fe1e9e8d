"""The worker processes of pairs of kills: turns that ask before they pay.

A question is answered by a user who is `late`, when its turn is parked or its worker dead, or
`early`, while the run that asked still runs. Workers that are killed take the turns of one case
alone, by their code version; the last worker accepts those of all cases and ends them together,
which is much quicker than a process for each.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from contextvars import ContextVar
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from event_crash_program import QUICK, KillPoint
from event_stage import all_entries
from runtime_stage import PaymentModel, Stage, Trace, TracedTool, end_of, plan_with, rows
from signals_stage import AskUser
from warm_forks import fork

from amplifier_core.message_models import ChatRequest, ChatResponse, Usage
from amplifier_core.session import AmplifierSession
from amplifier_kit.calls.settings import Pricing
from amplifier_kit.history_repair import repair_history
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.limits.budgets import Budgets
from amplifier_runtime.limits.limits import Limits
from amplifier_runtime.log.reader import LogReader
from amplifier_runtime.log.session_log import SessionLog
from amplifier_runtime.signals.signals import Signals
from amplifier_runtime.signals.watcher import SignalWatch
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun
from amplifier_runtime.worker.liveness import Observer
from amplifier_runtime.worker.worker import Worker, WorkerSettings

Facts = dict[str, Any]
When = Literal["late", "early"]

# What the trace says before the further turn.
FURTHER = "further"
# Money enough for both turns however often a call is made again.
_BUDGET = Decimal(10)
_PRICE = Pricing(input=Decimal(1), output=Decimal(2))
_USAGE = Usage(input_tokens=2_000, output_tokens=20, total_tokens=2_020)


class Case(NamedTuple):
    """What one pair of kills is tried on."""

    url: str
    session_id: str
    loop: str
    when: When
    folder: Path

    @property
    def trace(self) -> Trace:
        return Trace(self.folder / self.session_id)

    @property
    def facts_file(self) -> Path:
        return self.folder / f"{self.session_id}.json"


# Whose turn the running code is about, for the places of a worker that has many turns.
_session: ContextVar[str] = ContextVar("crash_pair_session", default="")


class _Point(KillPoint):
    async def inside(self, name: str) -> None:
        # Parallel siblings get under way; nothing has to be seen by readers here.
        await asyncio.sleep(0.002)
        self(name)


class _NoPoint:
    """Notes each place in the trace of its session, and kills nobody."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str) -> None:
        if session_id := _session.get():
            Trace(self._folder / session_id).note("place", name)

    async def inside(self, name: str) -> None:
        self(name)


class _PricedModel(PaymentModel):
    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        response = await super().complete(request, **kwargs)
        return response.model_copy(update={"usage": _USAGE})


class _Actors(TurnPart):
    """Mounts model and tools, and makes places of what the log has heard and not written yet.

    With `signals`, each question is answered as soon as it is asked.
    """

    def __init__(self, folder: Path, point: _Point | _NoPoint, signals: Signals | None) -> None:
        self._folder = folder
        self._point = point
        self._signals = signals
        self._answering: list[asyncio.Task[Any]] = []

    async def prepare(self, run: TurnRun) -> None:
        session_id = run.claim.session_id
        _session.set(session_id)
        trace, reached = Trace(self._folder / session_id), self._point.inside
        await Stage(trace, reached).prepare(run)
        coordinator = run.session.coordinator
        model = _PricedModel(trace, session_id, reached)
        await coordinator.unmount("providers", model.name)
        await coordinator.mount("providers", model, name=model.name)

    async def attach(self, run: TurnRun) -> None:
        """Look at each record of a question as it is written."""
        assert run.recorder is not None
        note = run.recorder.note

        def heard(kind: str, data: dict[str, Any], *, is_clean: bool = False) -> None:
            note(kind, data, is_clean=is_clean)
            if kind not in ("approval.asked", "approval"):
                return
            self._point(f"said {kind}")
            if kind == "approval.asked" and self._signals is not None:
                answering = self._signals.answer(data["approval_id"], "Allow", by="ann")
                self._answering.append(asyncio.create_task(answering))

        run.recorder.note = heard


def _settings(
    database: Database, case: Case, point: _Point | _NoPoint, **more: Any
) -> WorkerSettings:
    early = Signals(database, "t") if case.when == "early" else None
    parts = [
        SessionLog(database),
        SignalWatch(poll_seconds=0.1),
        Limits(prices={"payment": _PRICE}),
        _Actors(case.folder, point, early),
        AskUser("pay"),
    ]
    return WorkerSettings(case.url, parts=parts, boundary=point, crash_limit=9, **QUICK, **more)


async def _answer_open(signals: Signals, session_id: str | None = None) -> None:
    for approval in await signals.approvals(session_id, limit=10_000):
        await signals.answer(approval.approval_id, "Allow", by="ann")


async def _answer_parked(client: Client, signals: Signals) -> None:
    """Answer what turns are parked for, until this is cancelled."""
    while True:
        for approval in await signals.approvals(limit=10_000):
            if (await client.turn(approval.turn_id)).state == "parked":
                await signals.answer(approval.approval_id, "Allow", by="ann")
        await asyncio.sleep(0.05)


async def _run(case: Case, at: int | None) -> None:
    database = Database(case.url, connections=4)
    client, signals = Client(database, "t"), Signals(database, "t")
    await client.create_session(case.session_id, plan_with(case.loop))
    await Budgets(database).set_tree("t", case.session_id, usd=_BUDGET)
    # Whoever ran before in this database is dead, and that is known without waiting.
    await Observer(database, dead_after_seconds=0).reap_dead_workers()
    await _answer_open(signals, case.session_id)
    settings = _settings(database, case, _Point(at, case.trace), code_version=case.session_id)
    async with Worker(settings), asyncio.timeout(60):
        answering = asyncio.create_task(_answer_parked(client, signals))
        turn = await client.submit(case.session_id, "buy", idempotency_key="k")
        await end_of(client, turn, case.trace)
        answering.cancel()
        # A good end takes its time, and nothing here depends on it.
        os._exit(0)


def play(case: Case, at: int | None) -> int:
    """Run a worker that is killed at the place reached as the `at`-th; returns its exit code."""
    return fork(partial(_run, case, at))


async def _finish(cases: Sequence[Case]) -> None:
    one = cases[0]
    database = Database(one.url, connections=4)
    client, signals = Client(database, "t"), Signals(database, "t")
    await Observer(database, dead_after_seconds=0).reap_dead_workers()
    await _answer_open(signals)
    versions = [case.session_id for case in cases]
    settings = _settings(database, one, _NoPoint(one.folder), accepts=versions)

    async def end(case: Case) -> None:
        turn = await client.submit(case.session_id, "buy", idempotency_key="k")
        await client.result(turn.turn_id)
        case.trace.note(FURTHER)
        turn = await client.submit(case.session_id, "buy more", idempotency_key="further")
        await client.result(turn.turn_id)
        facts = await _facts(database, case)
        case.facts_file.write_text(json.dumps(facts), encoding="utf-8")

    async with Worker(settings), asyncio.timeout(60 + 5 * len(cases)):
        answering = asyncio.create_task(_answer_parked(client, signals))
        await asyncio.gather(*map(end, cases))
        answering.cancel()
        os._exit(0)


def finish(cases: Sequence[Case]) -> int:
    """End the turns of all cases, run a further one of each, and write down what is there then."""
    return fork(partial(_finish, cases))


def warm(loop: str, folder: Path) -> None:
    """Do once what every process would do again: imports, and models that are built when used."""

    async def buy() -> None:
        session = AmplifierSession(plan_with(loop))
        await session.initialize()
        trace, coordinator = Trace(folder / "warm"), session.coordinator
        await coordinator.mount("providers", _PricedModel(trace, "warm"), name="payment")
        for name in ("price", "pay"):
            tool = TracedTool(name, "pure", trace, "warm")
            await coordinator.mount("tools", tool, name=name)
        await session.execute("buy")
        await session.cleanup()

    asyncio.run(buy())


async def _facts(database: Database, case: Case) -> Facts:
    session_id, tree = case.session_id, f"tree:{case.session_id}"
    client = Client(database, "t")
    entries = await all_entries(LogReader(database), session_id)
    turns = await client.turns(session_id)
    repairs = repair_history(await client.messages(session_id))[1]
    questions = f"SELECT approval_id, state FROM approvals WHERE session_id = '{session_id}'"
    accounts = f"SELECT * FROM accounts WHERE account_id = '{tree}'"
    holds = f"SELECT * FROM holds WHERE tree = '{tree}'"
    return {
        "turns": [
            {"turn_id": each.turn_id, "state": each.state, "answer": each.answer} for each in turns
        ],
        "repairs": repairs,
        "log": [
            {
                "seq": each.seq,
                "turn_id": each.turn_id,
                "name": each.name,
                "approval_id": each.data.get("approval_id"),
            }
            for each in entries
        ],
        "questions": await rows(database, questions),
        "accounts": await rows(database, accounts),
        "holds": await rows(database, holds),
        "trace": case.trace.lines(),
    }
