"""Turns on a worker in this process: one result each, in order, in parallel, with a history."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from runtime_stage import Stage, Trace, plan_with

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, all_of
from amplifier_runtime.errors import SchemaError, TurnFailedError
from amplifier_runtime.worker.worker import Worker, WorkerSettings


async def answer(client: Client, session: str, prompt: str, key: str) -> str | None:
    turn = await client.submit(session, prompt, idempotency_key=key)
    async with asyncio.timeout(120):
        return (await client.result(turn.turn_id)).answer


async def test_a_worker_refuses_to_run_on_tables_it_does_not_know(tmp_path: Path) -> None:
    worker = Worker(WorkerSettings(f"sqlite:///{tmp_path / 'empty.sqlite'}"))
    with pytest.raises(SchemaError):
        await worker.__aenter__()
    worker.database.close()


async def test_turns_have_one_result_each_and_go_on_from_the_history(
    url: str, database: Database, echo_plan: dict[str, Any]
) -> None:
    client = Client(database, "t")
    await client.create_session("s", echo_plan)
    async with Worker(WorkerSettings(url)):
        assert await answer(client, "s", "one", "a") == "[mock] You said: one"
        assert await answer(client, "s", "two", "b") == "[mock] You said: two"
        assert await answer(client, "s", "one", "a") == "[mock] You said: one"
    history = [message["content"] for message in await client.messages("s")]
    assert len(history) == 4
    assert [turn.runs for turn in await client.turns("s")] == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["loop-basic", "loop-events", "loop-streaming"])
async def test_sessions_run_in_parallel_and_no_more_than_the_worker_may(
    database: Database, url: str, tmp_path: Path, loop: str
) -> None:
    inside, most = 0, 0

    async def reached(name: str) -> None:
        nonlocal inside, most
        if name == "begin price":
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.05)
            inside -= 1

    trace = Trace(tmp_path / "trace")
    client = Client(database, "t")
    for number in range(8):
        await client.create_session(f"s{number}", plan_with(loop))
    async with Worker(WorkerSettings(url, concurrency=3, parts=[Stage(trace, reached)])):
        answers = await asyncio.gather(*(answer(client, f"s{n}", "buy", "k") for n in range(8)))
    assert answers == ["price 42, paid"] * 8
    assert 1 < most <= 3
    assert len(trace.lines("effect pay")) == 8
    assert len(trace.lines("model")) == 16


async def test_a_turn_that_fails_is_finished_by_its_error(
    database: Database, url: str, echo_plan: dict[str, Any]
) -> None:
    script = {"mode": "scripted", "script": [{"error": "AuthenticationError"}]}
    plan = {**echo_plan, "providers": [{"module": "provider-mock", "config": script}]}
    client = Client(database, "t")
    await client.create_session("s", plan)
    async with Worker(WorkerSettings(url)):
        turn = await client.submit("s", "x", idempotency_key="k")
        with pytest.raises(TurnFailedError) as failure:
            async with asyncio.timeout(120):
                await client.result(turn.turn_id)
    assert failure.value.error["type"] == "AuthenticationError"


async def test_the_journal_of_a_turn_that_ended_long_ago_is_swept(
    database: Database, url: str, echo_plan: dict[str, Any]
) -> None:
    client = Client(database, "t")
    await client.create_session("s", echo_plan)
    table = "workflow_events" if database.is_sqlite else "dbos.workflow_events"

    async def kept() -> int:
        return await database.run(lambda c: len(all_of(c, f"SELECT key FROM {table}")))

    settings = WorkerSettings(url, keep_journal_seconds=0.2, sweep_seconds=0.1)
    async with Worker(settings), asyncio.timeout(120):
        assert await answer(client, "s", "one", "a") == "[mock] You said: one"
        while await kept():  # noqa: ASYNC110 - the sweep sets no event
            await asyncio.sleep(0.05)
        assert await answer(client, "s", "two", "b") == "[mock] You said: two"
    assert len(await client.messages("s")) == 4
