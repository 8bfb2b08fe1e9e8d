"""The database goes away in the middle of turns, in good order and by a crash, and comes back."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from runtime_stage import Stage, Trace, plan_with

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.worker.worker import Worker, WorkerSettings

TURNS = 40


@pytest.mark.slow
@pytest.mark.attack("J2")
async def test_j2_turns_outlive_restarts_of_the_database(tmp_path: Path) -> None:
    """J2: every turn ends, is run once, and pays once."""
    chance = random.Random(7)

    async def reached(name: str) -> None:
        await asyncio.sleep(chance.uniform(0.05, 0.4))

    trace = Trace(tmp_path / "trace")
    with LocalPostgres() as server:
        database = Database(server.url)
        await migrate(database)
        client = Client(database, "t")
        settings = WorkerSettings(server.url, concurrency=8, parts=[Stage(trace, reached)])
        async with Worker(settings), asyncio.timeout(120):
            turns: list[str] = []
            for number in range(TURNS):
                await client.create_session(f"s{number}", plan_with("loop-basic"))
                turn = await client.submit(f"s{number}", "buy", idempotency_key="k")
                turns.append(turn.turn_id)
            for mode in ("immediate", "fast"):
                await asyncio.sleep(1.0)
                await asyncio.to_thread(server.stop, mode)
                await asyncio.sleep(1.0)
                await asyncio.to_thread(server.start)
            results = [await client.result(turn_id) for turn_id in turns]
        database.close()
    assert {result.answer for result in results} == {"price 42, paid"}
    assert {result.runs for result in results} == {1}
    assert len(trace.lines("effect pay")) == TURNS
    assert len(trace.lines("model")) == 2 * TURNS
