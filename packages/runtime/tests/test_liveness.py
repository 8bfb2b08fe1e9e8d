"""Workers in processes of their own that are killed, paused and told to leave."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Protocol

import pytest
from runtime_stage import Trace, is_stopped, pause, plan_with, until
from warm_workers import WarmWorker
from worker_program import main

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import IDLE_SECONDS, Connection, Database, all_of, execute
from amplifier_runtime.database.store import Turn
from amplifier_runtime.worker.liveness import Liveness, Observer

if sys.platform == "win32":
    raise pytest.skip.Exception("Windows has no fork server", allow_module_level=True)

pytestmark = pytest.mark.slow


class Start(Protocol):
    def __call__(self, name: str, hold_at: str | None = None) -> WarmWorker: ...


@pytest.fixture
def start(url: str, database: Database, tmp_path: Path) -> Generator[Start]:
    workers: list[WarmWorker] = []

    def begin(name: str, hold_at: str | None = None) -> WarmWorker:
        workers.append(WarmWorker(main, url, tmp_path, name, hold_at))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.kill()


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return Trace(tmp_path / "trace")


async def submitted(database: Database) -> tuple[Client, Turn]:
    client = Client(database, "t")
    await client.create_session("s", plan_with("loop-basic"))
    return client, await client.submit("s", "buy", idempotency_key="k")


async def durable_rows(database: Database) -> dict[str, Any]:
    """Return everything that a run may have written."""
    journal = "workflow_events" if database.is_sqlite else "dbos.workflow_events"
    queries = {
        "journal": f"SELECT key, value FROM {journal} ORDER BY key",
        "messages": "SELECT * FROM messages ORDER BY session_id, position",
        "turns": "SELECT turn_id, state, answer, epoch, runs, crashes FROM turns",
        "sessions": "SELECT session_id, epoch, state FROM sessions",
    }
    return await database.run(
        lambda c: {name: [dict(row) for row in all_of(c, sql)] for name, sql in queries.items()}
    )


@pytest.mark.attack("J1")
async def test_j1_a_killed_workers_turn_is_finished_by_another_and_pays_once(
    database: Database, start: Start, trace: Trace
) -> None:
    """J1: kill -9 in the middle of an unsafe tool."""
    client, turn = await submitted(database)
    worker = start("first", hold_at="end pay")
    await until(lambda: trace.lines("first end pay"))
    worker.kill()
    start("second")
    finished = await client.result(turn.turn_id)
    assert finished.answer == "price 42, paid"
    assert (finished.runs, finished.crashes) == (2, 1)
    assert len(trace.lines("effect pay")) == 1
    assert len(trace.lines("model s 0")) == 1


@pytest.mark.attack("J1")
async def test_j1_a_paused_worker_that_wakes_writes_nothing(
    database: Database, start: Start, trace: Trace, tmp_path: Path
) -> None:
    """J1: SIGSTOP in the middle of a model call, SIGCONT when another has finished the turn."""
    client, turn = await submitted(database)
    worker = start("paused", hold_at="model 2")
    await until(lambda: trace.lines("paused model 2"))
    await pause(worker.pid, database)
    start("second")
    assert (await client.result(turn.turn_id)).answer == "price 42, paid"
    before = await durable_rows(database)
    (tmp_path / "release").touch()
    worker.send(signal.SIGCONT)
    await until(lambda: trace.lines("paused past model 2"))
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert await durable_rows(database) == before
    assert len(trace.lines("effect pay")) == 1


@pytest.mark.attack("J1")
async def test_j1_the_database_refuses_a_worker_that_does_not_know_it_was_given_up(
    database: Database, start: Start, trace: Trace, tmp_path: Path
) -> None:
    """J1: it lives and works but beats no more; both fences hold without its cooperation."""
    client, turn = await submitted(database)
    worker = start("silent", hold_at="model 2")
    await until(lambda: trace.lines("silent model 2"))
    start("second")
    assert (await client.result(turn.turn_id)).answer == "price 42, paid"
    before = await durable_rows(database)
    (tmp_path / "release").touch()
    await until(lambda: trace.lines("silent before llm:2"))
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert await durable_rows(database) == before
    assert trace.lines("silent after llm:2") == []
    assert trace.lines("silent before finish") == []


def pause_in_the_middle_of_a_beat(url: str) -> None:
    """Stop while the row that says who is alive is locked; exit with how many beats were heard."""
    database = Database(url)
    places = iter([signal.SIGSTOP])

    def work(connection: Connection) -> int:
        sql = "UPDATE workers SET beat = beat + 1 WHERE worker_id = 'w' AND state = 'alive'"
        beats = execute(connection, sql)
        for number in places:
            os.kill(os.getpid(), number)
        return beats

    sys.exit(database.transact(work))


@pytest.mark.attack("J1")
@pytest.mark.parametrize("new_url", ["postgresql"], indirect=True)
async def test_j1_a_worker_paused_in_the_middle_of_a_transaction_is_given_up_and_told_so(
    database: Database, url: str
) -> None:
    """J1: PostgreSQL lets go of what a process holds that says nothing any more."""
    await Liveness(database, "w", code_version="1", concurrency=1).register()
    worker = WarmWorker(pause_in_the_middle_of_a_beat, url)
    await until(lambda: is_stopped(worker.pid))
    try:
        async with asyncio.timeout(4 * IDLE_SECONDS):
            assert await Observer(database, dead_after_seconds=0).reap_dead_workers() == ["w"]
        worker.send(signal.SIGCONT)
        assert worker.wait() == 0
    finally:
        worker.kill()


async def test_a_paused_worker_begins_no_unsafe_tool_when_it_wakes(
    database: Database, start: Start, trace: Trace, tmp_path: Path
) -> None:
    client, turn = await submitted(database)
    worker = start("paused", hold_at="model 0")
    await until(lambda: trace.lines("paused model 0"))
    await pause(worker.pid, database)
    start("second")
    assert (await client.result(turn.turn_id)).answer == "price 42, paid"
    (tmp_path / "release").touch()
    worker.send(signal.SIGCONT)
    await until(lambda: trace.lines("paused past model 0"))
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert len(trace.lines("effect pay")) == 1
    assert trace.lines("paused begin pay") == []


async def test_a_worker_told_to_leave_hands_its_turn_over_at_the_next_step(
    database: Database, start: Start, trace: Trace, tmp_path: Path
) -> None:
    client, turn = await submitted(database)
    worker = start("leaving", hold_at="begin pay")
    await until(lambda: trace.lines("leaving begin pay"))
    worker.send(signal.SIGTERM)
    await until(lambda: _is(database, "draining"))
    (tmp_path / "release").touch()
    assert worker.wait() == 0
    handed_over = await client.turn(turn.turn_id)
    assert (handed_over.state, handed_over.crashes) == ("ready", 0)
    start("second")
    finished = await client.result(turn.turn_id)
    assert (finished.answer, finished.runs) == ("price 42, paid", 2)
    assert len(trace.lines("effect pay")) == 1
    assert len(trace.lines("model s 0")) == 1
    assert "unknown" not in str(await client.messages("s"))


def _is(database: Database, state: str) -> bool:
    sql = "SELECT worker_id FROM workers WHERE state = :state"
    return bool(database.transact(lambda c: all_of(c, sql, state=state)))
