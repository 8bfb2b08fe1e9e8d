"""Tests of what children have from their parents, and what parents see of their children."""

from __future__ import annotations

from typing import Any

from amplifier_core.correlation import tool_call

HANGS = {"text": "Now I wait.", "delay_seconds": 3600}


async def cost_of(root: Any) -> list[Any]:
    return [
        each["cost_usd"] for each in await root.coordinator.collect_contributions("session.cost")
    ]


async def test_what_a_tree_cost_counts_for_its_root_and_stays(
    build: Any, asks: Any, says: Any
) -> None:
    paid = {"text": "Done.", "usage": {"cost_usd": "0.25"}}
    agents = {"leaf": says(paid), "middle": says(asks("task", prompt="Go.", agent="leaf"), paid)}
    root = await build(agents=agents)

    for _ in range(2):
        await root.call("task", prompt="Go.", agent="middle")

    assert sorted(await cost_of(root)) == ["0", "1.00"]
    ended = [(each["depth"], each["cost_usd"]) for each in root.told("finished")]
    assert ended == [(2, "0.25"), (1, "0.50")] * 2


async def test_a_running_child_gives_signs_of_life(
    build: Any, asks: Any, says: Any, probe: Any
) -> None:
    digger = says(asks("probe"), HANGS, tools=[{"module": "tool-probe"}])
    root = await build({"heartbeat_seconds": 0.02}, agents={"digger": digger})

    with tool_call("task", "c1"):
        await root.call("task", prompt="Dig.", agent="digger", timeout_seconds=0.3)

    started, last = root.told("started")[0], root.told("progress")[-1]
    assert started["handle"] == last["handle"] == "task-1"
    assert last["child_session_id"].startswith("root-")
    assert last["parent_tool_call_id"] == "c1"
    assert (last["agent"], last["background"], last["depth"]) == ("digger", False, 1)
    assert (last["steps"], last["last_tool"], last["deadline_seconds"]) == (2, "probe", 0.3)


async def test_a_child_works_where_its_parent_works(build: Any, plant: Any) -> None:
    found: list[str] = []

    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        found.append(coordinator.get_capability("session.working_dir"))

    plant("hooks-where", mount)
    root = await build(hooks=[{"module": "hooks-where"}])
    root.coordinator.register_capability("session.working_dir", "somewhere")

    await root.call("task", prompt="Go.")

    assert found == [None, "somewhere"]


async def test_an_agent_adds_to_the_hooks_of_its_parent(build: Any, plant: Any) -> None:
    mounted: list[tuple[str, Any]] = []

    def mounts(name: str) -> Any:
        async def mount(coordinator: Any, config: dict[str, Any]) -> None:
            mounted.append((name, config.get("key")))

        return mount

    for name in ("a", "b", "c"):
        plant(f"hooks-{name}", mounts(name))
    own = [{"module": "hooks-b", "config": {"key": 2}}, {"module": "hooks-c"}]
    hooks = [{"module": "hooks-a"}, {"module": "hooks-b", "config": {"key": 1}}]
    root = await build(hooks=hooks, agents={"other": {"hooks": own}})
    mounted.clear()

    await root.call("task", prompt="Go.", agent="other")

    assert mounted == [("a", None), ("b", 2), ("c", None)]


async def test_a_plan_whose_agent_is_none_stops_the_mount(build: Any) -> None:
    root = await build(agents={"poet": "verses"})

    failed = [each for each in root.session.status.modules if each.state == "failed"]

    assert "poet" in str(failed[0].error)


async def test_an_agent_without_tools_has_none_of_its_parent(
    build: Any, asks: Any, says: Any, probe: Any
) -> None:
    idle = says(asks("probe"), "Done.", tools=[])
    root = await build(tools=[{"module": "tool-probe"}], agents={"idle": idle})

    await root.call("task", prompt="Go.", agent="idle")

    assert probe.calls == 0
