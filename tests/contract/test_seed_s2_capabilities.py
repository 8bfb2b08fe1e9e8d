"""The blocks of the document Coordinator API on capabilities and channels, run as written."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator
from contract.doubles import raising
from contract.installer import Installer
from contract.requirements import requirement
from contract.seeds import local_names, run_block
from contract.seeds.sessions import LOGGER, ShownTool, failures, session_with
from contract.seeds.signatures import assert_offers, shown_signature


async def _agent_config(agent_id: str) -> dict[str, Any]:
    return {"agent": agent_id}


@requirement("STWO-586", "STWO-602")
async def test_functions_and_values_are_registered_as_capabilities() -> None:
    coordinator = ModuleCoordinator()

    async def spawn_agent() -> None: ...

    assert_offers(shown_signature("S2:586"), coordinator.register_capability)
    names: dict[str, Any] = {"get_agent_config": _agent_config, "spawn_agent": spawn_agent}
    shown = await run_block("S2:602", {"coordinator": coordinator, **names})

    get = coordinator.get_capability
    assert get("agents.list") is shown["list_agents"]
    assert await get("agents.list")() == ["researcher", "coder", "reviewer"]
    assert get("agents.get") is _agent_config
    assert get("agents.spawn") is spawn_agent
    assert get("workspace.path") == "/home/user/project"
    assert get("session.user_id") == "user_123"
    register: Any = coordinator.register_capability
    assert register(name="workspace.path", value=None) is None
    assert get("workspace.path") is None


@requirement("STWO-627", "STWO-639")
async def test_a_capability_is_used_if_it_is_there_and_done_without_if_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = ModuleCoordinator()
    spawned: list[tuple[str, str]] = []

    async def list_agents() -> list[str]:
        return ["researcher"]

    async def spawn_agent(agent_id: str, task: str) -> None:
        spawned.append((agent_id, task))

    assert_offers(shown_signature("S2:627"), coordinator.get_capability)
    await run_block("S2:639", {"coordinator": coordinator, "logger": LOGGER})
    assert caplog.messages == ["Agent system not available"]
    caplog.clear()

    coordinator.register_capability("agents.list", list_agents)
    coordinator.register_capability("workspace.path", "/home/user/project")
    coordinator.register_capability("agents.spawn", spawn_agent)
    await run_block("S2:639", {"coordinator": coordinator, "logger": LOGGER})
    assert caplog.messages == [
        "Available agents: ['researcher']",
        "Working in: /home/user/project",
    ]
    assert spawned == [("researcher", "analyze codebase")]


@requirement("STWO-668", "STWO-688")
async def test_contributors_are_registered_by_keyword_and_may_give_nothing() -> None:
    coordinator = ModuleCoordinator()
    names: dict[str, Any] = {"execute_command": object(), "validate_syntax": object()}
    names |= {"coordinator": coordinator, "enable_metrics": False}
    names["get_current_metrics"] = lambda: {"calls": 1}

    assert_offers(shown_signature("S2:668"), coordinator.register_contributor)
    shown = await run_block("S2:688", names)

    collect = coordinator.collect_contributions
    assert await collect("observability.events") == [
        ["tool:execute", "tool:complete", "tool:error"]
    ]
    commands = {"bash.execute": names["execute_command"], "bash.validate": names["validate_syntax"]}
    assert await collect("capabilities") == [commands]
    assert await collect("metrics.snapshot") == []
    shown["enable_metrics"] = True
    assert await collect("metrics.snapshot") == [{"calls": 1}]


@requirement("STWO-735", "STWO-747")
async def test_a_consumer_flattens_lists_and_merges_dicts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = ModuleCoordinator()
    register = coordinator.register_contributor
    register("observability.events", "bash", lambda: ["tool:execute", "tool:complete"])
    register("observability.events", "odd", lambda: "no list")
    register("observability.events", "broken", raising(RuntimeError("boom")))
    register("observability.events", "session", lambda: ["session:start"])
    register("capabilities", "bash", lambda: {"bash.execute": 1})
    register("capabilities", "odd", lambda: ["no dict"])
    register("capabilities", "workspace", lambda: {"workspace.path": 2})

    assert_offers(shown_signature("S2:735"), coordinator.collect_contributions)
    collecting = coordinator.collect_contributions("nobody")
    assert inspect.iscoroutine(collecting)
    assert await asyncio.create_task(collecting) == []
    found = await run_block("S2:747", {"coordinator": coordinator})

    assert found["events"] == [
        ["tool:execute", "tool:complete"],
        "no list",
        ["session:start"],
    ]
    assert found["all_events"] == ["tool:execute", "tool:complete", "session:start"]
    assert found["merged"] == {"bash.execute": 1, "workspace.path": 2}
    assert len(caplog.records) == 1


@requirement("STWO-1016", "STWO-1027")
async def test_one_module_offers_what_another_one_uses(installed: Installer) -> None:
    offering = await run_block("S2:1016", {"MyTool": ShownTool})
    using = await run_block("S2:1027", {"logger": LOGGER})
    session = session_with(installed, offering["mount"], module_id="tool-offering")
    installed.add("tool-using", using["mount"])
    session.config["tools"].append({"module": "tool-using"})

    with local_names("S2:1027") as seen:
        async with session:
            assert failures(session) == []
            get = session.coordinator.get_capability
            assert get("my-tool.validate")() is True
            assert get("my-tool.config")() == {"setting": "none"}

    assert seen["result"].output == {"param": "value"}


@requirement("STWO-1027")
async def test_a_module_does_without_a_capability_that_is_not_there(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    using = await run_block("S2:1027", {"logger": LOGGER})

    async with session_with(installed, using["mount"]) as session:
        assert failures(session) == []

    assert "my-tool not available, using fallback" in caplog.messages


@requirement("STWO-1055")
async def test_dotted_names_group_capabilities() -> None:
    coordinator = ModuleCoordinator()
    functions = ["list_agents", "get_agent_config", "spawn_agent", "read_file", "write_file"]
    functions += ["emit_metric", "flush_metrics"]
    names = {name: object() for name in functions}

    await run_block("S2:1055", {"coordinator": coordinator, **names})

    offered = {
        "agents.list": names["list_agents"],
        "agents.get": names["get_agent_config"],
        "agents.spawn": names["spawn_agent"],
        "workspace.path": "/home/user/project",
        "workspace.read_file": names["read_file"],
        "workspace.write_file": names["write_file"],
        "observability.emit": names["emit_metric"],
        "observability.flush": names["flush_metrics"],
    }
    assert {name: coordinator.get_capability(name) for name in offered} == offered
    assert coordinator.to_dict()["capabilities"] == list(offered)


@requirement("STWO-1073")
async def test_a_capability_is_read_under_a_type_of_the_callers() -> None:
    coordinator = ModuleCoordinator()
    without = await run_block("S2:1073", {"coordinator": coordinator})
    assert without["spawn_agent"] is None
    assert "session_id" not in without

    async def spawn_agent(agent_id: str, settings: dict[str, Any]) -> str:
        return f"{agent_id} {settings['max_iterations']}"

    coordinator.register_capability("agents.spawn", spawn_agent)
    shown = await run_block("S2:1073", {"coordinator": coordinator})

    assert shown["session_id"] == "researcher 10"


@requirement("STWO-1089")
async def test_contributed_capabilities_are_merged_to_one_dict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    coordinator = ModuleCoordinator()
    tool = ShownTool()
    coordinator.register_contributor("capabilities", "odd", lambda: ["no dict"])
    coordinator.register_contributor("capabilities", "other", lambda: {"other.run": 1})

    shown = await run_block("S2:1089", {"coordinator": coordinator, "tool": tool})

    assert shown["merged"] == {
        "other.run": 1,
        "my-tool.execute": tool.execute,
        "my-tool.validate": tool.validate,
    }
    printed = [f"Available: {name}" for name in shown["merged"]]
    assert capsys.readouterr().out.splitlines() == printed
