"""Children whose workers, and whose parents' workers, are killed: each finishes once."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Generator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from children_program import main
from runtime_stage import Trace
from warm_workers import WarmWorker

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, all_of
from amplifier_runtime.limits.budgets import Budgets
from amplifier_sandbox.platforms.signals import KILL

USAGE = {"input_tokens": 3_000, "output_tokens": 200, "total_tokens": 3_200}
USED = Decimal(3 * 3_000 + 15 * 200) / 1_000_000

pytestmark = pytest.mark.slow

Start = Callable[[], WarmWorker]


@pytest.fixture
def start(url: str, database: Database) -> Generator[Start]:
    workers: list[WarmWorker] = []

    def begin() -> WarmWorker:
        workers.append(WarmWorker(main, url))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.kill()


def plan(trace: Path, children: int, delay: float) -> dict[str, Any]:
    def model(*steps: Any) -> list[dict[str, Any]]:
        config = {"steps": list(steps), "usage": USAGE, "trace": str(trace)}
        return [{"module": "provider-steps", "config": config}]

    calls = [
        {"id": f"c{n}", "name": "task", "arguments": {"prompt": "Go.", "agent": f"a{n}"}}
        for n in range(children)
    ]
    look: dict[str, Any] = {"tool_calls": [{"id": "s", "name": "task_status", "arguments": {}}]}
    agents = {
        f"a{n}": {
            "providers": model(
                {**look, "delay_seconds": delay}, {"text": f"Answer {n}.", "delay_seconds": delay}
            )
        }
        for n in range(children)
    }
    texts = " ".join(f"{{{n}}}" for n in range(children))
    return {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "tools": [{"module": "tool-task"}],
        "providers": model({"tool_calls": calls}, texts),
        "agents": agents,
    }


async def rows(database: Database, sql: str, **values: Any) -> list[dict[str, Any]]:
    return await database.run(lambda c: [dict(row) for row in all_of(c, sql, **values)])


async def up(database: Database, count: int) -> None:
    """Wait until so many workers beat: their engines cannot make their tables at the same time."""
    sql = "SELECT 1 FROM workers WHERE state = 'alive' AND beat > 1"
    async with asyncio.timeout(120):
        while len(await rows(database, sql)) < count:  # noqa: ASYNC110 - a worker sets no events
            await asyncio.sleep(0.02)


async def pid_of(database: Database, turn_sql: str) -> int:
    """Wait until such a turn runs, and return the process that runs it."""
    sql = (
        "SELECT w.address FROM turns t JOIN workers w ON w.worker_id = t.worker_id "
        f"WHERE t.state = 'running' AND {turn_sql}"
    )
    async with asyncio.timeout(120):
        while not (found := await rows(database, sql)):  # noqa: ASYNC110 - a worker sets no events
            await asyncio.sleep(0.01)
    return int(found[0]["address"].rsplit(":", 1)[1])


async def result(client: Client, turn_id: str, seconds: float = 120) -> str | None:
    async with asyncio.timeout(seconds):
        return (await client.result(turn_id)).answer


async def test_a_killed_childs_turn_is_finished_by_another_worker_and_once(
    database: Database, start: Start, tmp_path: Path
) -> None:
    client, trace = Client(database, "t"), Trace(tmp_path / "trace")
    await client.create_session("root", plan(tmp_path / "trace", 2, 0.5))
    await Budgets(database).set_tree("t", "root", usd=Decimal(1))
    for number in (1, 2):
        start()
        await up(database, number)
    turn = await client.submit("root", "Start.", idempotency_key="k")
    victim = await pid_of(database, "t.parent_turn_id IS NOT NULL")
    os.kill(victim, KILL)
    assert await result(client, turn.turn_id) == "Answer 0. Answer 1."
    children = await rows(
        database, "SELECT state, answer, crashes FROM turns WHERE parent_turn_id IS NOT NULL"
    )
    assert [each["state"] for each in children] == ["done", "done"]
    assert sum(each["crashes"] for each in children) >= 1
    status = await Budgets(database).status("t", "root")
    assert status is not None
    # Every call that was begun is charged, those that were lost in full; nothing stays set aside.
    assert status["used"]["calls"] == len(trace.lines("model"))
    assert status["held"] == {"usd": "0", "tokens": 0, "calls": 0}
    lost = await rows(database, "SELECT usd FROM holds WHERE state = 'lost'")
    assert len(lost) == len(trace.lines("model")) - 6
    assert Decimal(status["used"]["usd"]) == 6 * USED + sum(
        Decimal(each["usd"]) / 1_000_000_000 for each in lost
    )


async def test_a_parent_whose_worker_dies_while_its_children_run_reads_them_once(
    database: Database, start: Start, tmp_path: Path
) -> None:
    client, trace = Client(database, "t"), Trace(tmp_path / "trace")
    await client.create_session("root", plan(tmp_path / "trace", 3, 0.4))
    only = start()
    turn = await client.submit("root", "Start.", idempotency_key="k")
    async with asyncio.timeout(120):
        while len(await rows(database, "SELECT 1 FROM children")) < 3:  # noqa: ASYNC110 - rows
            await asyncio.sleep(0.005)
    only.kill()
    start()
    assert await result(client, turn.turn_id) == "Answer 0. Answer 1. Answer 2."
    assert len(await rows(database, "SELECT 1 FROM children")) == 3
    asked = Counter(line for line in trace.lines("model root 0"))
    assert asked == {"model root 0": 1}


async def test_trees_under_a_rain_of_kills_finish_each_once(
    database: Database, start: Start, tmp_path: Path
) -> None:
    client = Client(database, "t")
    turns: list[str] = []
    for number in range(6):
        await client.create_session(f"r{number}", plan(tmp_path / "trace", 3, 0.15))
        await Budgets(database).set_tree("t", f"r{number}", usd=Decimal(5))
        turns += [(await client.submit(f"r{number}", "Start.", idempotency_key="k")).turn_id]
    workers = [start()]
    await up(database, 1)
    workers.append(start())
    for _ in range(4):
        await asyncio.sleep(1.5)
        workers.pop(0).kill()
        workers.append(start())
    answers = await asyncio.gather(*(result(client, each, 120) for each in turns))
    assert answers == ["Answer 0. Answer 1. Answer 2."] * 6
    children = await rows(database, "SELECT stop_reason FROM children")
    assert [each["stop_reason"] for each in children] == ["completed"] * 18
    held = await rows(database, "SELECT account_id FROM accounts WHERE usd_held <> 0")
    assert held == []
    assert await rows(database, "SELECT 1 FROM holds WHERE state = 'open'") == []
