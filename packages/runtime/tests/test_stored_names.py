"""What databases of the version before have in them: its names, and a turn that it left behind."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from runtime_stage import Stage, Trace, plan_with, rows

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Connection, Database, execute
from amplifier_runtime.worker.worker import Worker, WorkerSettings

# The rows that a worker of 0.2 had written when it was killed: one model call is kept, both tools
# have run, and the second model call has not begun.
_LEFT = Path(__file__).parent / "turn_left_by_0_2.json"
_QUICK: dict[str, Any] = {"beat_seconds": 0.1, "dead_after_seconds": 0.4, "poll_seconds": 0.05}

pytestmark = pytest.mark.parametrize("new_url", ["sqlite"], indirect=True)


def _left() -> dict[str, list[dict[str, Any]]]:
    return json.loads(_LEFT.read_text(encoding="utf-8"))


def _insert_all(connection: Connection) -> None:
    for table, found in _left().items():
        for row in found:
            names = ", ".join(row)
            values = ", ".join(f":{name}" for name in row)
            execute(connection, f"INSERT INTO {table} ({names}) VALUES ({values})", **row)


async def test_a_turn_that_the_version_before_left_is_finished_and_repeats_nothing(
    database: Database, tmp_path: Path
) -> None:
    """The keys, the serializer and the names of workflow and step are those in its rows."""
    await database.run(_insert_all)
    trace = Trace(tmp_path / "trace")

    async with Worker(WorkerSettings(database.url, parts=[Stage(trace)], **_QUICK)):
        async with asyncio.timeout(120):
            result = await Client(database, "t").result("turn-before")

    assert result.answer == "price 42, paid"
    assert result.runs == 2
    # Only the call that was not kept: two results were there before it.
    assert trace.lines() == ["model s 2"]


async def test_the_names_in_the_engines_tables_are_those_of_every_version(
    database: Database, tmp_path: Path
) -> None:
    """A worker of another version finds workflow and step by these names, and reads the values."""
    trace = Trace(tmp_path / "trace")
    client = Client(database, "t")
    worker = Worker(WorkerSettings(database.url, parts=[Stage(trace)], **_QUICK))
    async with worker:
        await client.create_session("s", plan_with("loop-basic"))
        turn = await client.submit("s", "buy", idempotency_key="k")
        async with asyncio.timeout(120):
            await client.result(turn.turn_id)
        queues = await rows(database, "SELECT name, application_name FROM queues")
        assert queues == [{"name": worker.worker_id, "application_name": "amplifier"}]

    [workflow] = await rows(database, "SELECT * FROM workflow_status")
    assert workflow["workflow_uuid"] == turn.turn_id
    assert workflow["name"] == "amplifier.turn"
    assert workflow["application_version"] == "amplifier"
    assert workflow["application_name"] == "amplifier"
    assert workflow["serialization"] == "amplifier_json"
    assert workflow["class_name"] is None
    assert workflow["config_name"] is None
    steps = await rows(database, "SELECT function_name FROM operation_outputs")
    assert [step["function_name"] for step in steps] == ["amplifier.loop"]
    kept = await rows(database, "SELECT key, value, serialization FROM workflow_events")
    assert {each["serialization"] for each in kept} == {"amplifier_json"}
    assert sorted(each["key"] for each in kept) == [
        "llm:1:558ac4302bf26907110dbec7",
        "llm:2:82ddf9ddbff99490e6e1f6cf",
        "tool:call_1:6f25da56ec38a3457ff426a3:1",
        "tool:call_2:759d444e864ac792d51793a1:1",
        "tool:call_2:759d444e864ac792d51793a1:1:started",
    ]
    # What is kept under them is the same too, but for the token of the run.
    before = {each["key"]: each["value"] for each in _left()["workflow_events"]}
    for each in kept:
        if each["key"] in before and not each["key"].endswith(":started"):
            assert each["value"] == before[each["key"]]
