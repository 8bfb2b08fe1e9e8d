"""Replays against another plan: they stop where it first does something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.live import open_live
from amplifier_foundation.store import SessionStore
from amplifier_journal.replay.replayer import replay
from end_to_end.recorded_sessions import call, plan_of

LIST = {"module": "tool-todo"}
STEPS = [{"tool_calls": [call("todo")]}, "One.", "Two."]


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "home")


async def record(store: SessionStore, project: Path, plan: dict[str, Any]) -> str:
    async with open_live(plan, store=store, project=project) as live:
        await live.execute("First.")
        await live.execute("Second.")
    return live.session_id


def recorded_plan() -> dict[str, Any]:
    return plan_of(STEPS, tools=(LIST,))


async def test_the_recorded_plan_given_again_replays_to_the_end(
    store: SessionStore, tmp_path: Path
) -> None:
    log = store.read(await record(store, tmp_path, recorded_plan()))

    result = await replay(log, plan=recorded_plan())

    assert str(result) == "2 turn(s) replayed without a difference."
    assert result.is_complete


async def test_another_script_of_the_model_does_not_matter(
    store: SessionStore, tmp_path: Path
) -> None:
    log = store.read(await record(store, tmp_path, recorded_plan()))

    result = await replay(log, plan=plan_of(["Something else."], tools=(LIST,)))

    assert result.differences == []


async def test_a_tool_that_is_missing_stops_the_replay_at_the_first_request(
    store: SessionStore, tmp_path: Path
) -> None:
    log = store.read(await record(store, tmp_path, recorded_plan()))

    result = await replay(log, plan=plan_of(STEPS))

    assert result.first is not None
    assert result.first.about == "the list of tools of the request to `mock` differs"
    assert (result.turns, result.is_complete) == (0, False)


async def test_a_loop_that_ends_a_turn_sooner_is_noticed(
    store: SessionStore, tmp_path: Path
) -> None:
    log = store.read(await record(store, tmp_path, recorded_plan()))
    plan = recorded_plan()
    plan["session"]["orchestrator"] = {"module": "loop-basic", "config": {"max_iterations": 1}}

    result = await replay(log, plan=plan)

    assert result.differences
    assert result.first is not None
    assert result.first.turn == 1


async def test_a_request_that_the_recorded_turn_did_not_make_is_new(
    store: SessionStore, tmp_path: Path
) -> None:
    short = recorded_plan()
    short["session"]["orchestrator"] = {"module": "loop-basic", "config": {"max_iterations": 1}}
    short["providers"][0]["config"]["script"] = ["One.", "Two."]
    log = store.read(await record(store, tmp_path, short))
    plan = recorded_plan()
    plan["session"]["orchestrator"] = {
        "module": "loop-basic",
        "config": {"output_schema": {"type": "object"}},
    }

    result = await replay(log, plan=plan)

    assert not result.is_complete
    (new,) = result.differences
    assert (new.about, new.turn) == ("a request to `mock` is new", 1)


async def test_capabilities_are_those_that_are_given(store: SessionStore, tmp_path: Path) -> None:
    log = store.read(await record(store, tmp_path, recorded_plan()))

    result = await replay(log, capabilities={"project.trusted": True})

    assert result.differences == []
