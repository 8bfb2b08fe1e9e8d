"""A rolling deploy: workers of two code versions on one PostgreSQL, as the commands start them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from command_stage import Started, Workers
from runtime_stage import until

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate

pytestmark = pytest.mark.slow

TURNS, HELD = 12, 8


@pytest.fixture
def url(postgres: LocalPostgres, request: pytest.FixtureRequest) -> str:
    return postgres.create_database(request.node.name)


@pytest.fixture
async def client(url: str) -> AsyncGenerator[Client]:
    database = Database(url)
    await migrate(database)
    yield Client(database, "t")
    database.close()


@pytest.fixture
def workers(client: Client, url: str, tmp_path: Path) -> Generator[Workers]:
    workers = Workers(url, tmp_path)
    yield workers
    workers.end()


async def test_new_code_leaves_a_turn_alone_that_it_cannot_continue(
    client: Client, workers: Workers
) -> None:
    trace = workers.trace
    old = workers.start("--code-version", "old")
    await client.create_session("begun", workers.plan(hold_at="model 2"))
    await client.create_session("fresh", workers.plan())
    begun = await client.submit("begun", "buy", idempotency_key="k")
    await until(lambda: trace.lines("reached begun model 2"))
    old.process.kill()
    workers.start("--code-version", "new")
    workers.release()
    fresh = await client.submit("fresh", "buy", idempotency_key="k")
    assert (await client.result(fresh.turn_id)).answer == "price 42, paid"
    async with asyncio.timeout(120):
        while (left := await client.turn(begun.turn_id)).state != "ready":  # noqa: ASYNC110 - a row
            await asyncio.sleep(0.05)
    # A second turn that came later is done, and this one was not begun.
    later = await client.submit("fresh", "buy", idempotency_key="later")
    await client.result(later.turn_id)
    assert (await client.turn(begun.turn_id)).runs == left.runs == 1
    assert "1 turns begun by code old" in await workers.typed("status")
    workers.start("--code-version", "newer", "--accepts", "old")
    finished = await client.result(begun.turn_id)
    assert (finished.answer, finished.runs) == ("price 42, paid", 2)
    assert len(trace.lines("model begun 0")) == 1
    assert len(trace.lines("effect pay begun")) == 1


async def test_a_rolling_deploy_loses_repeats_and_crashes_nothing(
    client: Client, workers: Workers
) -> None:
    trace = workers.trace
    old = [workers.start("--code-version", "1", "--concurrency", "4") for _ in range(2)]
    turns: list[str] = []
    for number in range(TURNS):
        await client.create_session(f"s{number}", workers.plan(hold_at="begin pay"))
        turn = await client.submit(f"s{number}", "buy", idempotency_key="k")
        turns.append(turn.turn_id)
    # The old ones are full, each turn in the middle of a payment.
    await until(lambda: sum("begin pay" in line for line in trace.lines()) == HELD)
    new = ("--code-version", "2", "--accepts", "1", "--concurrency", "16")
    workers.start(*new)
    leaving = [asyncio.create_task(workers.typed("drain", old[0].worker_id))]
    await heard(old[0])
    workers.start(*new)
    leaving.append(asyncio.create_task(workers.typed("drain", old[1].worker_id)))
    await heard(old[1])
    workers.release()
    assert all("has left" in said for said in await asyncio.gather(*leaving))
    assert [each.process.wait(timeout=120) for each in old] == [0, 0]
    async with asyncio.timeout(120):
        finished = [await client.result(turn_id) for turn_id in turns]
    assert {turn.answer for turn in finished} == {"price 42, paid"}
    assert {turn.crashes for turn in finished} == {0}
    assert sum(turn.runs == 2 for turn in finished) >= HELD
    done = Counter(trace.lines())
    for number in range(TURNS):
        assert done[f"effect pay s{number}"] == 1
        assert done[f"model s{number} 0"] == done[f"model s{number} 2"] == 1


async def heard(worker: Started) -> None:
    """Wait until a worker says that it was told to leave."""
    assert worker.process.stdout is not None
    line = await asyncio.to_thread(worker.process.stdout.readline)
    assert line == f"{worker.worker_id} was asked to leave.\n"
