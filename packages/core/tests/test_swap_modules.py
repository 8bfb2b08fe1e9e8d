"""Tests of what a module finds and leaves when it is swapped in: coordinator, loader, cleanups."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, ModuleLoader
from amplifier_core.testing import MockTool
from contract.doubles import Listener, raising
from contract.installer import Installer, ScriptedProvider, mounting
from contract.requirements import requirement


async def ready_session(installed: Installer, **more: Any) -> AmplifierSession:
    """Give an initialised session of the basic mocks."""
    session = AmplifierSession(installed.basics(), **more)
    await session.initialize()
    return session


@requirement("LAW-19")
async def test_the_coordinator_a_module_was_staged_on_becomes_the_real_one(
    installed: Installer,
) -> None:
    session = await ready_session(installed)
    kept: list[ModuleCoordinator] = []

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        kept.append(coordinator)
        assert coordinator.session_id == session.session_id
        await coordinator.mount("providers", ScriptedProvider(), name="test")

    installed.add("provider-new", mount)
    await session.swap("providers", {"module": "provider-new"})
    await session.coordinator.mount("tools", MockTool("later"))

    assert kept[0].get("tools") is session.coordinator.get("tools")
    assert kept[0].get("providers") is session.coordinator.get("providers")


@requirement("LAW-19")
async def test_nobody_sees_a_module_before_the_turn_is_over(installed: Installer) -> None:
    session = await ready_session(installed)
    installed.object("provider-new", "providers", ScriptedProvider("new"), "new")
    seen: list[list[str]] = []

    async def act(providers: dict[str, Any], coordinator: ModuleCoordinator, **_: Any) -> str:
        await session.swap("providers", {"module": "provider-new"}, replaces="test")
        seen.extend([list(providers), list(coordinator.get("providers"))])
        return "done"

    installed.loop.act = act
    await session.execute("hi")

    assert seen == [["test"], ["test"]]
    assert list(session.coordinator.get("providers")) == ["new"]


@requirement("LAW-19")
async def test_a_swapped_module_is_loaded_through_the_mounted_resolver(
    installed: Installer, tmp_path: Path
) -> None:
    asked: list[tuple[str, Any]] = []

    class Resolver:
        def resolve(self, module_id: str, source_hint: Any = None) -> Any:
            asked.append((module_id, source_hint))
            raise LookupError("far away")

    session = await ready_session(installed, loader=ModuleLoader())
    await session.coordinator.mount("module-source-resolver", Resolver())

    with pytest.raises(LookupError, match="far away"):
        await session.swap("tools", {"module": "tool-far", "source": "git+far"})

    assert asked == [("tool-far", "git+far")]


@requirement("LIFE-8")
async def test_a_swapped_module_is_told_that_the_session_is_ready(installed: Installer) -> None:
    session = await ready_session(installed)
    told: list[Any] = []

    async def on_session_ready(coordinator: ModuleCoordinator) -> None:
        told.append(coordinator.get("providers", "test"))

    new = ScriptedProvider("new")
    mount = mounting("providers", new, "test")
    installed.add("provider-new", mount, on_session_ready=on_session_ready)

    await session.swap("providers", {"module": "provider-new"})

    assert told == [new]


@requirement("LAW-21")
@pytest.mark.parametrize("how", ["wrong signature", "raises at once", "nothing to await"])
async def test_a_loop_that_cannot_even_be_called_is_rolled_back(
    installed: Installer, how: str
) -> None:
    class Odd:
        def execute(self, *arguments: Any, **handed: Any) -> Any:
            if how == "raises at once":
                raise TypeError("not like this")
            return "no coroutine"

    class Deaf:
        async def execute(self) -> str:
            return "hears nothing"

    session = await ready_session(installed)
    installed.object("loop-odd", "orchestrator", Deaf() if how == "wrong signature" else Odd())
    await session.swap("orchestrator", {"module": "loop-odd"})

    with pytest.raises(TypeError):
        await session.execute("first turn of the new one")

    assert session.status.status == "failed"
    assert await session.execute("hi") == "answer to hi"


@requirement("LAW-21")
async def test_cleanups_a_module_registered_itself_run_when_it_is_rolled_back(
    installed: Installer,
) -> None:
    session = await ready_session(installed)
    cleaned: list[str] = []

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
        coordinator.register_cleanup(lambda: cleaned.append("registered"))
        await coordinator.mount("providers", ScriptedProvider(), name="test")
        return lambda: cleaned.append("returned")

    installed.add("provider-bad", mount)
    installed.loop.act = raising(RuntimeError("boom"))
    await session.swap("providers", {"module": "provider-bad"})
    with pytest.raises(RuntimeError, match="boom"):
        await session.execute("hi")

    assert cleaned == ["returned", "registered"]
    await session.cleanup()
    assert cleaned == ["returned", "registered"]


@requirement("LAW-20")
async def test_a_swap_that_is_cancelled_cleans_up_what_it_had_begun(installed: Installer) -> None:
    session = await ready_session(installed)
    started = asyncio.Event()
    cleaned: list[str] = []

    async def hang(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        coordinator.register_cleanup(lambda: cleaned.append("connection"))
        started.set()
        await asyncio.Event().wait()

    installed.add("provider-hanging", hang)
    async with asyncio.timeout(120):
        swapping = asyncio.create_task(session.swap("providers", {"module": "provider-hanging"}))
        await started.wait()
        swapping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await swapping

    assert cleaned == ["connection"]
    assert await session.execute("hi") == "answer to hi"


async def test_a_session_in_its_second_life_can_be_swapped_too(installed: Installer) -> None:
    session = await ready_session(installed)
    installed.object("provider-one", "providers", ScriptedProvider("one"), "test")
    await session.swap("providers", {"module": "provider-one"})
    await session.cleanup()
    installed.object("provider-two", "providers", ScriptedProvider("two"), "test")

    session.coordinator.mount_points["providers"].clear()
    await session.initialize()
    await session.swap("providers", {"module": "provider-two"})

    assert ("provider-two", "swapped") in [
        (each.module_id, each.state) for each in session.status.modules
    ]


@requirement("LAW-21")
async def test_who_hears_of_a_rollback_may_swap_something_else_in(installed: Installer) -> None:
    """As a module for failover would."""
    session = await ready_session(installed)

    async def fall_back(event: str, data: dict[str, Any]) -> None:
        await session.swap("providers", {"module": "provider-spare"})

    session.coordinator.hooks.register("module:rolled_back", fall_back)
    spare = ScriptedProvider("spare")
    installed.object("provider-bad", "providers", ScriptedProvider(), "test")
    installed.object("provider-spare", "providers", spare, "test")
    installed.loop.act = raising(RuntimeError("boom"))
    async with asyncio.timeout(120):
        await session.swap("providers", {"module": "provider-bad"})
        with pytest.raises(RuntimeError, match="boom"):
            await session.execute("hi")
        installed.loop.act = None
        await session.execute("hi")

    assert session.coordinator.get("providers", "test") is spare


@requirement("LAW-19")
async def test_who_hears_of_a_swap_may_run_a_turn(installed: Installer) -> None:
    session = await ready_session(installed)
    answers: list[str] = []

    async def try_out(event: str, data: dict[str, Any]) -> None:
        answers.append(await session.execute("how are you?"))

    session.coordinator.hooks.register("module:swapped", try_out)
    installed.object("provider-new", "providers", ScriptedProvider(), "test")

    async with asyncio.timeout(120):
        await session.swap("providers", {"module": "provider-new"})

    assert answers == ["answer to how are you?"]


@requirement("LAW-13", "LAW-19")
async def test_a_swapped_module_is_interposed_like_the_one_before(installed: Installer) -> None:
    session = await ready_session(installed)
    session.coordinator.interpose("providers", lambda name, module: ("wrapped", module), name="w")
    handed = session.coordinator.get("providers")
    new = ScriptedProvider("new")
    installed.object("provider-new", "providers", new, "test")

    await session.swap("providers", {"module": "provider-new"})

    assert handed == {"test": ("wrapped", new)}


@requirement("LAW-19")
async def test_the_announcement_names_what_came_and_what_went(installed: Installer) -> None:
    session = await ready_session(installed)
    heard = Listener()
    session.coordinator.hooks.register("module:swapped", heard)
    installed.object("provider-new", "providers", ScriptedProvider(), "new")

    await session.swap("providers", {"module": "provider-new"})

    told = {key: heard.data[key] for key in ("mount_point", "module_id", "names", "replaced")}
    assert told == {
        "mount_point": "providers",
        "module_id": "provider-new",
        "names": ["new"],
        "replaced": ["test"],
    }
