"""What is left of turns and workers that nothing leads to any more is removed."""

from __future__ import annotations

import asyncio
from typing import Any

from runtime_stage import rows

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, execute
from amplifier_runtime.database.store import wake_turn
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun
from amplifier_runtime.worker.liveness import Liveness
from amplifier_runtime.worker.worker import Worker, WorkerSettings


class Nap(TurnPart):
    """Puts every turn aside in its first run."""

    async def attach(self, run: TurnRun) -> None:
        if run.claim.runs == 1:
            await run.suspend("nap")


async def until_count(database: Database, sql: str, number: int) -> None:
    async with asyncio.timeout(120):
        while len(await rows(database, sql)) != number:  # noqa: ASYNC110 - a sweep sets no event
            await asyncio.sleep(0.05)


async def test_what_ended_without_its_worker_is_swept_and_what_only_waits_is_not(
    database: Database, url: str, echo_plan: dict[str, Any]
) -> None:
    client = Client(database, "t")
    # As one is that was killed behind the end of its last turn.
    await Liveness(database, "long-gone", code_version="1", concurrency=1).register()
    ends = "UPDATE workers SET state = 'dead', beat_at = 0"
    await database.run(lambda c: execute(c, ends))
    settings = WorkerSettings(url, keep_journal_seconds=0, sweep_seconds=0.01, parts=[Nap()])
    journals = "workflow_status" if database.is_sqlite else "dbos.workflow_status"
    async with Worker(settings):
        for name in ("over", "waiting"):
            await client.create_session(name, echo_plan)
            await client.submit(name, "hello", idempotency_key="k")
        await until_count(database, "SELECT 1 FROM turns WHERE state = 'parked'", 2)
        over = (
            "UPDATE turns SET state = 'cancelled', finished_at = submitted_at "
            "WHERE session_id = 'over'"
        )
        await database.run(lambda c: execute(c, over))
        await until_count(database, f"SELECT 1 FROM {journals}", 1)
        await until_count(database, "SELECT 1 FROM workers", 1)
        [waiting] = await client.turns("waiting")
        await database.run(lambda c: wake_turn(c, waiting.turn_id))
        async with asyncio.timeout(120):
            assert (await client.result(waiting.turn_id)).answer == "[mock] You said: hello"
