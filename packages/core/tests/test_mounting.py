"""Tests of mounting a plan: names, failures half-way, second attempts and shared loaders."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, ModuleLoader
from amplifier_core.testing import MockTool
from contract.installer import Installer, ScriptedProvider, mounting
from contract.requirements import requirement
from contract.stand_ins import Listener, raising


@requirement("SESS-22")
async def test_an_instance_must_come_under_the_name_of_its_module(installed: Installer) -> None:
    plan = installed.basics()
    installed.object("provider-odd", "providers", ScriptedProvider(), "another")
    plan["providers"].append({"module": "provider-odd", "instance_id": "mine"})
    session = AmplifierSession(plan)

    await session.initialize()

    assert list(session.coordinator.get("providers")) == ["test"]
    failed = [each for each in session.status.modules if each.state == "failed"]
    assert [(each.module_id, each.instance_id) for each in failed] == [("provider-odd", "mine")]


@requirement("LIFE-4")
async def test_the_cleanup_of_a_module_that_was_refused_runs_all_the_same(
    installed: Installer,
) -> None:
    cleaned: list[str] = []
    plan = installed.basics()
    mount = mounting(
        "providers", ScriptedProvider(), "another", returns=lambda: cleaned.append("refused")
    )
    installed.add("provider-odd", mount)
    plan["providers"].append({"module": "provider-odd", "instance_id": "mine"})

    async with AmplifierSession(plan):
        pass

    assert cleaned == ["refused"]


@pytest.mark.parametrize("section", ["orchestrator", "context"])
@pytest.mark.parametrize("content", [None, "", []])
async def test_an_empty_section_of_the_plan_is_no_config(
    installed: Installer, section: str, content: Any
) -> None:
    plan = installed.basics(**{section: content})

    async with AmplifierSession(plan) as session:
        assert await session.execute("hi") == "answer to hi"


@requirement("LAW-16")
async def test_the_status_names_every_module_with_its_kind(installed: Installer) -> None:
    plan = installed.basics(tools=[{"module": "tool-good"}, {"module": "tool-bad"}])
    installed.object("tool-good", "tools", MockTool("good"))
    installed.add("tool-bad", raising(ValueError("no disk")))
    session = AmplifierSession(plan)

    await session.initialize()

    assert [(m.module_id, m.module_type, m.state, m.error) for m in session.status.modules] == [
        ("loop-test", "orchestrator", "mounted", None),
        ("context-test", "context", "mounted", None),
        ("provider-test", "provider", "mounted", None),
        ("tool-good", "tool", "mounted", None),
        ("tool-bad", "tool", "failed", "ValueError: no disk"),
    ]


async def test_a_tool_that_fails_half_way_leaves_nothing_mounted(installed: Installer) -> None:
    async def half_way(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        await coordinator.mount("tools", MockTool("half"))
        await coordinator.mount("tools", MockTool("kept"))
        raise RuntimeError("boom")

    kept = MockTool("kept")
    plan = installed.basics(tools=[{"module": "tool-kept"}, {"module": "tool-half"}])
    installed.object("tool-kept", "tools", kept)
    installed.add("tool-half", half_way)

    async with AmplifierSession(plan) as session:
        assert session.coordinator.get("tools") == {"kept": kept}


async def test_a_cancelled_mount_leaves_nothing_mounted(installed: Installer) -> None:
    started = asyncio.Event()

    async def hang(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        await coordinator.mount("tools", MockTool("half"))
        started.set()
        await asyncio.Event().wait()

    plan = installed.basics(tools=[{"module": "tool-hang"}])
    installed.add("tool-hang", hang)
    session = AmplifierSession(plan)

    async with asyncio.timeout(5):
        initializing = asyncio.create_task(session.initialize())
        await started.wait()
        initializing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await initializing

    assert session.initialized is False
    assert session.coordinator.get("tools") == {}


@requirement("LAW-17")
async def test_what_failed_before_a_fatal_failure_is_announced_too(installed: Installer) -> None:
    plan = installed.basics(tools=[{"module": "tool-bad"}])
    plan["tools"].append({"module": "tool-needed", "required": True})
    for module_id in ("tool-bad", "tool-needed"):
        installed.add(module_id, raising(RuntimeError("boom")))
    session = AmplifierSession(plan)
    heard = Listener()
    session.coordinator.hooks.register("module:load_failed", heard)

    with pytest.raises(RuntimeError, match="required tool 'tool-needed'"):
        await session.initialize()

    told = [(data["module_id"], data["required"]) for _, data in heard.calls]
    assert told == [("tool-bad", False), ("tool-needed", True)]


class Ready:
    """An `on_session_ready` that keeps which coordinators it was told of."""

    def __init__(self) -> None:
        self.told: list[ModuleCoordinator] = []

    def install(self, installed: Installer, module_id: str) -> None:
        async def on_session_ready(coordinator: ModuleCoordinator) -> None:
            self.told.append(coordinator)

        mount = mounting("tools", MockTool("ready"))
        installed.add(module_id, mount, on_session_ready=on_session_ready)


@requirement("LIFE-8")
async def test_after_a_failed_attempt_every_module_is_told_once(installed: Installer) -> None:
    ready = Ready()
    plan = installed.basics(tools=[{"module": "tool-ready"}])
    ready.install(installed, "tool-ready")
    plan["tools"].append({"module": "tool-needed", "required": True})
    attempts = iter([RuntimeError("not yet"), None])

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        if error := next(attempts):
            raise error

    installed.add("tool-needed", mount)
    session = AmplifierSession(plan)
    with pytest.raises(RuntimeError, match="not yet"):
        await session.initialize()
    assert ready.told == []

    await session.initialize()

    assert ready.told == [session.coordinator]


@requirement("LIFE-8")
async def test_sessions_that_share_a_loader_are_each_told_of_themselves(
    installed: Installer,
) -> None:
    ready = Ready()
    plan = installed.basics(tools=[{"module": "tool-ready"}, {"module": "tool-slow"}])
    ready.install(installed, "tool-ready")
    turns = iter((3, 1))

    async def slow(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        for _ in range(next(turns)):
            await asyncio.sleep(0)

    installed.add("tool-slow", slow)
    loader = ModuleLoader()
    sessions = [AmplifierSession(plan, loader) for _ in range(2)]

    async with asyncio.timeout(5):
        await asyncio.gather(*(session.initialize() for session in sessions))

    assert len(ready.told) == 2
    assert set(map(id, ready.told)) == {id(session.coordinator) for session in sessions}


@requirement("LIFE-6")
async def test_a_module_that_mounts_and_returns_itself_is_mounted_once(
    installed: Installer,
) -> None:
    tool = MockTool("own")
    plan = installed.basics(tools=[{"module": "tool-own"}])
    installed.add("tool-own", mounting("tools", tool, "chosen", returns=tool))

    async with AmplifierSession(plan) as session:
        assert session.coordinator.get("tools") == {"chosen": tool}
