"""A worker that was given up and is back takes part again, in turns that were run before too."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, execute, one_of
from amplifier_runtime.database.store import wake_turn
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun
from amplifier_runtime.worker.worker import Worker, WorkerSettings


class Nap(TurnPart):
    """Puts every turn aside in its first run."""

    async def attach(self, run: TurnRun) -> None:
        if run.claim.runs == 1:
            await run.suspend("nap")


async def until_found(database: Database, sql: str) -> None:
    async with asyncio.timeout(120):
        while await database.run(lambda c: one_of(c, sql)) is None:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.02)


async def test_a_worker_that_was_buried_by_mistake_runs_turns_again(
    url: str, database: Database, echo_plan: dict[str, Any]
) -> None:
    client = Client(database, "t")
    await client.create_session("s", echo_plan)
    settings = WorkerSettings(url, beat_seconds=0.1, poll_seconds=0.05, parts=[Nap()])
    async with Worker(settings) as worker:
        turn = await client.submit("s", "hello", idempotency_key="k")
        await until_found(database, "SELECT 1 FROM turns WHERE state = 'parked'")
        # What the others do to one that beats no more.
        await worker._engine.forget(worker.worker_id)
        await database.run(lambda c: execute(c, "UPDATE workers SET state = 'dead'"))
        await until_found(database, "SELECT 1 FROM workers WHERE state = 'alive'")
        await database.run(lambda c: wake_turn(c, turn.turn_id))
        async with asyncio.timeout(120):
            finished = await client.result(turn.turn_id)
    assert (finished.state, finished.runs) == ("done", 2)
