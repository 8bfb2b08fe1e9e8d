"""Tests of how far a tree of agents grows."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.effects import declaration_of

HANGS = {"text": "Now I wait.", "delay_seconds": 3600}


async def test_no_more_children_run_at_once_than_allowed(build: Any, says: Any) -> None:
    root = await build({"max_children": 2}, agents={"slow": says(HANGS)})
    for _ in range(2):
        await root.call("task", prompt="Go.", agent="slow", background=True)

    refused = await root.call("task", prompt="Go.")
    await root.call("task_cancel", handle="task-1")
    allowed = await root.call("task", prompt="Go.")

    assert "2 tasks are running" in refused.output
    assert allowed.success
    assert "2 tasks are running" in root.told("refused")[0]["reason"]
    assert any("No task was started" in line for line in root.screen.lines)


@pytest.mark.attack("V4")
async def test_an_agent_that_only_delegates_is_stopped_by_depth(
    build: Any, asks: Any, says: Any
) -> None:
    root = await build({"max_depth": 2}, **says(asks("task", prompt="You do it."), "Done."))

    await root.session.execute("Start.")

    assert [(each["depth"], each["session_id"].count("-")) for each in root.told("started")] == [
        (1, 0),
        (2, 1),
    ]


@pytest.mark.attack("V4")
async def test_a_whole_tree_has_no_more_agents_than_allowed(
    build: Any, asks: Any, says: Any
) -> None:
    both = {"text": "Two.", "tool_calls": [asks("task", prompt="Go.")["tool_calls"][0]] * 2}
    root = await build({"max_depth": 5, "max_total": 7}, **says(both, "Done."))

    await root.session.execute("Start.")

    assert len(root.told("started")) == 7
    assert root.told("refused")


@pytest.mark.attack("V4")
async def test_an_agent_cannot_widen_the_limits_of_its_parent(
    build: Any, asks: Any, says: Any
) -> None:
    wide = {"module": "tool-task", "config": {"max_depth": 9, "max_children": 9}}
    agents = {"wide": says(asks("task", prompt="Go.", agent="wide"), "Done.", tools=[wide])}
    root = await build({"max_depth": 2}, agents=agents)

    await root.call("task", prompt="Go.", agent="wide")

    assert [each["depth"] for each in root.told("started")] == [1, 2]


async def test_a_session_that_an_app_says_is_deep_has_no_children(build: Any) -> None:
    root = await build()
    child = root.session.fork()
    child.coordinator.register_capability("self_delegation_depth", 3)

    async with child:
        assert "task" not in child.coordinator.get("tools")


async def test_without_a_lease_no_child_is_started(build: Any) -> None:
    root = await build()
    asked: list[tuple[str, int]] = []

    async def lease(child_session_id: str, depth: int | None = None) -> str | None:
        asked.append((child_session_id, depth or 0))
        return None if len(asked) == 1 else "nothing is left"

    root.coordinator.register_capability("budget.lease", lease)

    allowed = await root.call("task", prompt="Go.")
    refused = await root.call("task", prompt="Go.")

    assert allowed.success
    assert asked[0] == (root.told("started")[0]["child_session_id"], 1)
    assert "nothing is left" in refused.output
    assert len(root.told("started")) == 1


async def test_a_budget_that_fails_gives_no_lease(build: Any) -> None:
    root = await build()

    async def lease(child_session_id: str, depth: int | None = None) -> str | None:
        raise RuntimeError("the ledger is gone")

    root.coordinator.register_capability("budget.lease", lease)

    result = await root.call("task", prompt="Go.")

    assert "could not be asked" in result.output
    assert root.told("started") == []


async def test_a_refused_lease_takes_no_place_in_the_tree(build: Any) -> None:
    root = await build({"max_total": 1})
    answers = ["not now", None]

    async def lease(child_session_id: str, depth: int | None = None) -> str | None:
        return answers.pop(0)

    root.coordinator.register_capability("budget.lease", lease)

    assert not (await root.call("task", prompt="Go.")).success
    assert (await root.call("task", prompt="Go.")).success


async def test_a_task_cannot_have_more_time_than_there_is(build: Any, says: Any) -> None:
    root = await build({"timeout_seconds": 0.1}, agents={"slow": says(HANGS)})

    result = await root.call("task", prompt="Go.", agent="slow", timeout_seconds=60)

    assert result.error["stop_reason"] == "deadline"


@pytest.mark.attack("P2")
async def test_nothing_that_comes_from_a_child_is_trusted(build: Any) -> None:
    root = await build()

    tools = root.coordinator.get("tools")
    declared = {name: declaration_of(tools[name]) for name in tools if name.startswith("task")}
    assert len(declared) == 4
    assert not any(each.output_trusted for each in declared.values())
    assert declared["task"] == ("unsafe", 1830.3, False)


async def test_an_unknown_key_stops_the_mount_by_name(build: Any) -> None:
    root = await build({"max_dept": 1})

    failed = [each for each in root.session.status.modules if each.state == "failed"]

    assert "max_dept" in str(failed[0].error)
