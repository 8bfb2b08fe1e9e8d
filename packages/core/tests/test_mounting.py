"""Tests of mounting a plan: names, failures half-way, second attempts and shared loaders."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import (
    AmplifierSession,
    ModuleCoordinator,
    ModuleLoader,
    SessionError,
)
from amplifier_core.testing import MockTool
from contract.doubles import Listener, raising
from contract.installer import Installer, Loop, ScriptedProvider, mounting
from contract.requirements import requirement


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

    async with asyncio.timeout(120):
        initializing = asyncio.create_task(session.initialize())
        await started.wait()
        initializing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await initializing

    assert session.initialized is False
    assert session.coordinator.get("tools") == {}


@pytest.mark.attack("H4")
@pytest.mark.parametrize("hangs_again", [False, True])
async def test_a_mount_that_hangs_ends_at_its_limit_and_is_announced(
    installed: Installer, hangs_again: bool
) -> None:
    async def hang(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        await coordinator.mount("tools", MockTool("half"))
        try:
            await asyncio.Event().wait()
        finally:
            if hangs_again:
                await asyncio.Event().wait()

    plan = installed.basics(tools=[{"module": "tool-hang"}, {"module": "tool-kept"}])
    plan["session"]["mount_timeout"] = 0.05
    installed.add("tool-hang", hang)
    installed.object("tool-kept", "tools", MockTool("kept"))
    session = AmplifierSession(plan)
    heard = Listener()
    session.coordinator.hooks.register("module:load_failed", heard)

    async with asyncio.timeout(120), session:
        assert list(session.coordinator.get("tools")) == ["kept"]
        assert await session.execute("hi") == "answer to hi"

    assert [(data["module_id"], data["error"]) for _, data in heard.calls] == [
        ("tool-hang", "no result after 0.05 s")
    ]
    failed = [each.module_id for each in session.status.modules if each.state == "failed"]
    assert failed == ["tool-hang"]


async def test_a_slow_wave_of_quick_mounts_is_no_mount_that_hangs(
    installed: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mount has a limit of its own, which ends with it."""
    limits: list[tuple[float, asyncio.TimerHandle]] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def noting(delay: float, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        limits.append((delay, call_later(delay, *args, **kwargs)))
        return limits[-1][1]

    async def wait(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        assert [timer.cancelled() for _, timer in limits] == [True] * len(limits)
        await asyncio.sleep(0)
        await coordinator.mount("tools", MockTool(config["name"]))

    names = ["a", "b", "c", "d"]
    installed.add("tool-slow", wait)
    tools = [{"module": "tool-slow", "config": {"name": name}} for name in names]
    plan = installed.basics(tools=tools)
    plan["session"]["mount_timeout"] = 5.0
    monkeypatch.setattr(loop, "call_later", noting)

    async with AmplifierSession(plan) as session:
        assert list(session.coordinator.get("tools")) == names

    assert [delay for delay, _ in limits] == [5.0] * 4
    assert all(timer.cancelled() for _, timer in limits)


async def test_a_cancellation_that_meets_the_limit_is_still_a_cancellation(
    installed: Installer,
) -> None:
    async def hang(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            initializing.cancel()

    plan = installed.basics(tools=[{"module": "tool-hang"}])
    plan["session"]["mount_timeout"] = 0.01
    installed.add("tool-hang", hang)

    async with asyncio.timeout(120):
        initializing = asyncio.create_task(AmplifierSession(plan).initialize())
        with pytest.raises(asyncio.CancelledError):
            await initializing


@pytest.mark.attack("H4")
async def test_a_cleanup_that_hangs_or_raises_does_not_keep_the_others_from_running(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    cleaned: list[str] = []

    async def hang() -> None:
        await asyncio.Event().wait()

    def fail() -> None:
        raise RuntimeError("boom")

    plan = installed.basics(tools=[{"module": f"tool-{name}"} for name in "abc"])
    plan["session"]["cleanup_timeout"] = 0.05
    for name, cleanup in zip("abc", [lambda: cleaned.append("a"), hang, fail], strict=True):
        installed.add(f"tool-{name}", mounting("tools", MockTool(name), returns=cleanup))

    async with asyncio.timeout(120), AmplifierSession(plan):
        pass

    assert cleaned == ["a"]
    assert caplog.text.count("Error during cleanup") == 2


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


class PreparedSession:
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
    ready = PreparedSession()
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
    ready = PreparedSession()
    plan = installed.basics(tools=[{"module": "tool-ready"}, {"module": "tool-slow"}])
    ready.install(installed, "tool-ready")
    turns = iter((3, 1))

    async def slow(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        for _ in range(next(turns)):
            await asyncio.sleep(0)

    installed.add("tool-slow", slow)
    loader = ModuleLoader()
    sessions = [AmplifierSession(plan, loader) for _ in range(2)]

    async with asyncio.timeout(120):
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


@requirement("LAW-19")
@pytest.mark.parametrize(
    ("mount_point", "old", "new"),
    [("orchestrator", "loop-test", "loop-new"), ("tools", "tool-own", "tool-new")],
)
async def test_a_module_of_which_nothing_is_mounted_any_more_leaves_the_status(
    installed: Installer, mount_point: str, old: str, new: str
) -> None:
    plan = installed.basics(tools=[{"module": "tool-own"}])
    installed.object("tool-own", "tools", MockTool("own"))
    things: dict[str, Any] = {"orchestrator": Loop(), "tools": MockTool("own")}
    installed.object(new, mount_point, things[mount_point])

    async with AmplifierSession(plan) as session:
        await session.swap(mount_point, {"module": new})
        await session.execute("hi")
        known = [(each.module_id, each.state) for each in session.status.modules]

    assert (new, "swapped") in known
    assert old not in dict(known)
    assert len(known) == 4


async def test_a_cleanup_that_needs_an_argument_fails_where_it_is_logged(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    def close(thing: Any) -> None: ...

    plan = installed.basics(tools=[{"module": "tool-own"}])
    installed.add("tool-own", mounting("tools", MockTool("own"), returns=close))

    async with AmplifierSession(plan):
        assert "Error during cleanup" not in caplog.text

    assert "Error during cleanup" in caplog.text


async def test_an_object_that_is_not_what_its_mount_point_takes_is_named_in_the_failure(
    installed: Installer,
) -> None:
    plan = installed.basics()
    plan["providers"].append({"module": "provider-odd"})
    installed.object("provider-odd", "providers", object(), "odd")
    session = AmplifierSession(plan)
    errors: list[Any] = []

    async def tell(coordinator: ModuleCoordinator, spec: dict[str, Any], error: Any) -> None:
        errors.append(error)

    session.coordinator.register_capability("provider.load_failure", tell)

    async with session:
        assert list(session.coordinator.get("providers")) == ["test"]

    (error,) = errors
    assert error.module_id == "provider-odd"
    assert "'provider-odd' mounted an object that is not a provider" in str(error)
    assert "complete" in str(error)


async def test_a_module_that_is_known_already_fails_under_its_own_name(
    installed: Installer,
) -> None:
    async def on_session_ready(coordinator: ModuleCoordinator) -> None:
        raise RuntimeError("not ready")

    plan = installed.basics(tools=[{"module": "tool-own"}])
    mount = mounting("tools", MockTool("own"))
    installed.add("tool-own", mount, on_session_ready=on_session_ready)

    for _ in range(2):
        session = AmplifierSession(plan)
        heard = Listener()
        session.coordinator.hooks.register("module:on_session_ready_failed", heard)
        async with session:
            pass
        assert [data["module_id"] for _, data in heard.calls] == ["tool-own"]


async def test_the_module_of_an_object_is_found_after_one_that_failed(
    installed: Installer,
) -> None:
    tool = MockTool("own")
    plan = installed.basics(tools=[{"module": "tool-broken"}, {"module": "tool-own"}])
    installed.add("tool-broken", raising(RuntimeError("broken")))
    installed.object("tool-own", "tools", tool)

    async with AmplifierSession(plan) as session:
        assert session.module_of(tool) == "tool-own"
        assert session.module_of(MockTool("own")) is None


async def test_a_module_that_mounted_nothing_owns_nothing(installed: Installer) -> None:
    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None: ...

    plan = installed.basics(hooks=[{"module": "hooks-idle"}])
    installed.add("hooks-idle", mount)

    async with AmplifierSession(plan) as session:
        assert session.module_of(session.coordinator.hooks) is None


async def test_a_loop_that_mounts_nothing_is_missed_by_the_turn(installed: Installer) -> None:
    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None: ...

    plan = installed.basics()
    installed.add("loop-test", mount)

    async with AmplifierSession(plan) as session:
        with pytest.raises(SessionError, match="No orchestrator module mounted"):
            await session.execute("hi")


class EqualTool(MockTool):
    """A tool that compares equal to every other one of its class."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualTool)

    def __hash__(self) -> int:
        return 1


async def test_a_rollback_forgets_the_new_module_and_not_one_that_compares_equal(
    installed: Installer,
) -> None:
    kept = EqualTool("own")
    plan = installed.basics()

    async with AmplifierSession(plan) as session:
        installed.object("tool-own", "tools", kept)
        await session.swap("tools", {"module": "tool-own"})
        await session.execute("good")
        installed.object("tool-own", "tools", EqualTool("own"))
        session.loader = ModuleLoader(session.coordinator)
        await session.swap("tools", {"module": "tool-own"})
        installed.loop.act = raising(RuntimeError("bad turn"))
        with pytest.raises(RuntimeError, match="bad turn"):
            await session.execute("bad")

        assert session.coordinator.get("tools", "own") is kept
        assert session.module_of(kept) == "tool-own"
