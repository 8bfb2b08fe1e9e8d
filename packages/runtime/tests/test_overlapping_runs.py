"""A turn that is woken while the run that parked it is still being closed, in the same worker."""

from __future__ import annotations

import asyncio
from pathlib import Path

from runtime_stage import Stage, plan_with
from signals_stage import AskUser, Scene

from amplifier_runtime.children.children import Children
from amplifier_runtime.database.database import Database
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun
from amplifier_runtime.worker.worker import Worker, WorkerSettings


class CloseLate(TurnPart):
    """Closes the first run of a turn only when the second has begun."""

    def __init__(self) -> None:
        self._second = asyncio.Event()

    async def attach(self, run: TurnRun) -> None:
        if run.claim.runs == 2:
            self._second.set()

    async def close(self, run: TurnRun) -> None:
        if run.claim.runs == 1:
            async with asyncio.timeout(120):
                await self._second.wait()


async def test_the_next_run_keeps_its_signals_when_the_one_before_is_closed(
    database: Database, url: str, tmp_path: Path
) -> None:
    scene = Scene(database, url, tmp_path)
    parts = [CloseLate(), scene.watch, Children(), Stage(scene.trace), AskUser("pay")]
    async with Worker(WorkerSettings(url, poll_seconds=0.05, parts=parts)):
        turn = await scene.submit(plan_with("loop-basic"))
        [question] = await scene.asked()
        await scene.until_state(turn, "parked")
        await scene.signals.answer(question.approval_id, "Allow", by="ann")
        ended = await scene.result(turn)
    assert (ended.answer, ended.runs, ended.crashes) == ("price 42, paid", 2, 0)
    assert len(scene.trace.lines("effect pay")) == 1
