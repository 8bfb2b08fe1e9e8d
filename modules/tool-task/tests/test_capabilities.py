"""Tests of the agents as capabilities: what other modules of a session can do with them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import HookResult
from contract.doubles import Listener
from contract.requirements import requirement

HANGS = {"text": "Now I wait.", "delay_seconds": 3600}


async def spawn(root: Any, *given: Any, **named: Any) -> str:
    """Call `agents.spawn` as another module of the session does."""
    async with asyncio.timeout(120):
        return await root.coordinator.get_capability("agents.spawn")(*given, **named)


@requirement("AGENT-1")
async def test_the_agents_of_the_plan_are_listed(build: Any, says: Any) -> None:
    root = await build(agents={"poet": says("Roses."), "critic": says("Thorns.")})

    assert await root.coordinator.get_capability("agents.list")() == ["poet", "critic"]


@requirement("AGENT-1")
async def test_without_agents_the_list_is_empty(build: Any) -> None:
    root = await build()

    assert await root.coordinator.get_capability("agents.list")() == []


@requirement("AGENT-2")
async def test_an_agents_configuration_is_given_as_a_copy(build: Any, says: Any) -> None:
    root = await build(agents={"poet": says("Roses.", description="Writes verses.")})
    get = root.coordinator.get_capability("agents.get")

    given = await get("poet")
    given["providers"].clear()

    assert given["description"] == "Writes verses."
    assert await get("poet") == says("Roses.", description="Writes verses.")
    assert await get("nobody") == {}


@requirement("AGENT-3")
async def test_a_spawned_agent_does_the_task_and_its_answer_is_returned(
    build: Any, says: Any
) -> None:
    root = await build(agents={"poet": says("Roses are red.", "Violets are blue.")})

    assert await spawn(root, "poet", "A verse.") == "Roses are red."
    assert await spawn(root, "poet", task="A verse.") == "Roses are red."
    assert await spawn(root, agent_id="poet", task="A verse.") == "Roses are red."


@requirement("AGENT-3")
async def test_settings_in_the_place_of_the_task_are_refused(build: Any, says: Any) -> None:
    root = await build(agents={"poet": says("Roses are red.")})

    with pytest.raises(TypeError, match="takes the task as a text, not as dict"):
        await spawn(root, "poet", {"max_iterations": 10})

    assert root.told("started") == []


@requirement("AGENT-4")
@pytest.mark.parametrize("name", ["pilot", ""])
async def test_an_unknown_agent_is_a_value_error(build: Any, says: Any, name: str) -> None:
    root = await build(agents={"poet": says("Roses are red.")})

    with pytest.raises(ValueError, match="Unknown agent: .*Known: poet"):
        await spawn(root, name, "Fly.")

    assert root.told("started") == []


async def test_an_empty_task_is_a_value_error(build: Any, says: Any) -> None:
    root = await build(agents={"poet": says("Roses are red.")})

    with pytest.raises(ValueError, match="prompt"):
        await spawn(root, "poet", "")


@requirement("AGENT-5")
async def test_a_spawned_agent_is_a_task_like_any_other(build: Any, says: Any) -> None:
    root = await build(agents={"poet": says("Roses are red.")})

    await spawn(root, "poet", "A verse.")

    (started,), (finished,) = root.told("started"), root.told("finished")
    assert (started["agent"], started["depth"], started["background"]) == ("poet", 1, False)
    assert finished["stop_reason"] == "completed"
    assert "task-1 poet: completed" in (await root.call("task_status")).output


@requirement("AGENT-5")
async def test_a_spawned_agent_is_under_the_guards_of_its_parent(
    build: Any, asks: Any, says: Any, probe: Any
) -> None:
    agent = says(asks("probe"), "I could not look.", tools=[{"module": "tool-probe"}])
    root = await build(agents={"spy": agent})
    guard = Listener(HookResult(action="deny", reason="no probing"))
    root.coordinator.hooks.register("tool:pre", guard, on_error="deny")

    assert await spawn(root, "spy", "Look.") == "I could not look."

    assert guard.data["tool_name"] == "probe"
    assert probe.calls == 0


@requirement("AGENT-5")
async def test_no_more_agents_are_spawned_than_the_limits_allow(build: Any, says: Any) -> None:
    root = await build({"max_total": 1}, agents={"poet": says("Roses are red.")})
    await spawn(root, "poet", "A verse.")

    with pytest.raises(RuntimeError, match="All 1 agents were started"):
        await spawn(root, "poet", "Another one.")

    assert len(root.told("refused")) == 1
    assert not (await root.call("task", prompt="Go.")).success


@requirement("AGENT-5")
async def test_without_a_lease_no_agent_is_spawned(build: Any, says: Any) -> None:
    root = await build(agents={"poet": says("Roses are red.")})

    async def lease(child_session_id: str, depth: int | None = None) -> str | None:
        return "nothing is left"

    root.coordinator.register_capability("budget.lease", lease)

    with pytest.raises(RuntimeError, match="nothing is left"):
        await spawn(root, "poet", "A verse.")

    assert root.told("started") == []


@requirement("AGENT-5")
async def test_a_spawned_agent_ends_with_the_call_that_waits_for_it(build: Any, says: Any) -> None:
    root = await build(agents={"slow": says(HANGS)})
    begun = asyncio.Event()
    root.coordinator.hooks.register("task:started", lambda event, data: begun.set())  # pyright: ignore[reportUnknownLambdaType] - untyped by contract

    async with asyncio.timeout(120):
        waiting = asyncio.create_task(spawn(root, "slow", "Take your time."))
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    assert root.told("finished")[0]["stop_reason"] == "interrupted"


@requirement("AGENT-6")
async def test_a_session_that_is_too_deep_lists_its_agents_and_spawns_none(
    build: Any, says: Any
) -> None:
    root = await build({"max_depth": 0}, agents={"poet": says("Roses are red.")})

    assert "task" not in root.coordinator.get("tools")
    assert await root.coordinator.get_capability("agents.list")() == ["poet"]
    assert await root.coordinator.get_capability("agents.get")("poet") != {}
    with pytest.raises(RuntimeError, match="may be nested 0 deep"):
        await spawn(root, "poet", "A verse.")
    assert root.told("refused")[0]["depth"] == 1
    assert root.told("started") == []


@requirement("AGENT-6")
async def test_an_agent_of_the_last_generation_spawns_none(
    build: Any, asks: Any, says: Any, plant: Any
) -> None:
    """A tool spawns an agent that has the tool, and so on, until it is refused."""
    heard: list[str] = []

    class Spawner:
        name = "spawner"
        description = "Spawns."

        def __init__(self, coordinator: Any) -> None:
            self._coordinator = coordinator

        async def execute(self, input: dict[str, Any]) -> str:
            try:
                return await self._coordinator.get_capability("agents.spawn")("again", "Go.")
            except RuntimeError as error:
                heard.append(str(error))
                return "refused"

    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await coordinator.mount("tools", Spawner(coordinator))

    plant("tool-spawner", mount)
    root = await build(
        {"max_depth": 2},
        **says(asks("spawner"), "Done."),
        tools=[{"module": "tool-spawner"}],
        agents={"again": {"description": "Like its parent."}},
    )

    await root.session.execute("Start.")

    assert [each["depth"] for each in root.told("started")] == [1, 2]
    assert heard == ["Agents may be nested 2 deep. Do the work yourself."]


@requirement("AGENT-7")
async def test_an_agent_that_runs_out_of_time_raises_with_what_it_has(
    build: Any, asks: Any, says: Any, probe: Any
) -> None:
    agent = says(asks("probe"), HANGS, tools=[{"module": "tool-probe"}])
    root = await build({"timeout_seconds": 0.2}, agents={"slow": agent})

    with pytest.raises(RuntimeError, match="incomplete: deadline") as caught:
        await spawn(root, "slow", "Look.")

    assert "The probe found 42." in str(caught.value)
