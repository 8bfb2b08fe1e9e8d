"""Tests of the coordinator in the cases the contract tests leave open."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import (
    AmplifierSession,
    MockContextManager,
    MockTool,
    ModuleCoordinator,
    SessionError,
)
from amplifier_core.errors import MountError
from contract.doubles import Memory, inject, raising
from contract.installer import Installer


async def test_a_mount_point_put_in_by_hand_is_known_and_stays_as_it_is() -> None:
    coordinator = ModuleCoordinator()
    coordinator.mount_points["extra"] = "by hand"

    await coordinator.mount("extra", object())

    assert coordinator.mount_points["extra"] == "by hand"
    assert coordinator.get("extra") is None


async def test_unmounting_the_hooks_has_no_effect() -> None:
    coordinator = ModuleCoordinator()
    hooks = coordinator.hooks

    await coordinator.unmount("hooks")

    assert coordinator.get("hooks") is hooks


async def test_the_seeds_mount_point_reads_and_empties_the_single_slots() -> None:
    coordinator = ModuleCoordinator()
    memory = object()
    await coordinator.mount("session", memory, name="context")

    assert coordinator.get("session", "context") is memory
    assert coordinator.get_mounted("context") is memory
    await coordinator.unmount("session", name="context")
    assert coordinator.get("session", "context") is None
    with pytest.raises(MountError, match="Unknown mount point: session"):
        await coordinator.mount("session", memory, name="tools")


async def test_mounting_and_awaiting_twice_is_harmless() -> None:
    coordinator = ModuleCoordinator()

    mounted = coordinator.mount("tools", "tool", name="t")
    await mounted
    await mounted

    assert coordinator.get("tools") == {"t": "tool"}


async def test_a_cleanup_that_is_released_early_does_not_run_again() -> None:
    coordinator = ModuleCoordinator()
    ran: list[str] = []

    async def early() -> None:
        ran.append("early")

    def late() -> None:
        ran.append("late")

    for cleanup in (early, late):
        coordinator.register_cleanup(cleanup)

    await coordinator.release(early)
    assert ran == ["early"]
    await coordinator.cleanup()

    assert ran == ["early", "late"]


async def test_a_stranger_can_be_released_and_its_failure_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = ModuleCoordinator()

    await coordinator.release(raising(RuntimeError("boom")))

    assert "Error during cleanup" in caplog.text
    assert "boom" in caplog.text


async def test_what_is_no_cleanup_in_the_live_list_is_skipped() -> None:
    coordinator = ModuleCoordinator()
    ran: list[str] = []
    coordinator.register_cleanup(lambda: ran.append("real"))
    stray: Any = "not callable"
    coordinator._cleanup_fns.append(stray)

    await coordinator.cleanup()

    assert ran == ["real"]
    assert coordinator._cleanup_fns == []


async def test_a_cleanup_may_register_another_one() -> None:
    coordinator = ModuleCoordinator()
    ran: list[str] = []

    def first() -> None:
        ran.append("first")
        coordinator.register_cleanup(lambda: ran.append("second"))

    coordinator.register_cleanup(first)

    await coordinator.cleanup()

    assert ran == ["first", "second"]


async def test_a_cancelled_cleanup_lets_the_others_run_first() -> None:
    coordinator = ModuleCoordinator()
    started = asyncio.Event()
    ran: list[str] = []

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    coordinator.register_cleanup(lambda: ran.append("first registered"))
    coordinator.register_cleanup(hang)

    async with asyncio.timeout(120):
        cleaning = asyncio.create_task(coordinator.cleanup())
        await started.wait()
        cleaning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cleaning

    assert ran == ["first registered"]


@pytest.mark.parametrize("config", [{"session": None}, {"session": "text"}, None, []])
def test_a_config_without_a_session_section_sets_no_limits(config: Any) -> None:
    session = SimpleNamespace(session_id="s", parent_id=None, config=config)

    coordinator = ModuleCoordinator(session)

    assert coordinator.injection_size_limit is None
    assert coordinator.injection_budget_per_turn is None


async def test_what_mount_and_unmount_return_is_a_coroutine_for_asyncio() -> None:
    coordinator = ModuleCoordinator()
    tool = SimpleNamespace(name="clock")

    mounting = coordinator.mount("tools", tool)
    assert coordinator.get("tools", "clock") is tool
    await asyncio.create_task(mounting)
    await asyncio.gather(coordinator.mount("tools", tool, name="again"), asyncio.sleep(0))
    await asyncio.create_task(coordinator.unmount("tools", name="clock"))

    assert list(coordinator.get("tools")) == ["again"]


def test_mounting_may_be_all_that_a_program_runs() -> None:
    coordinator = ModuleCoordinator()

    asyncio.run(coordinator.mount("tools", SimpleNamespace(name="clock")))

    assert list(coordinator.get("tools")) == ["clock"]


async def test_a_mounting_task_that_is_cancelled_before_it_starts_has_mounted() -> None:
    coordinator = ModuleCoordinator()

    task = asyncio.create_task(coordinator.mount("tools", SimpleNamespace(name="clock")))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    coordinator.mount("tools", SimpleNamespace(name="second")).close()

    assert list(coordinator.get("tools")) == ["clock", "second"]


class _Equal:
    """A callable that equals every other of its kind."""

    def __init__(self, ran: list[str], name: str) -> None:
        self.ran = ran
        self.name = name

    def __call__(self) -> None:
        self.ran.append(self.name)

    def method(self) -> None:
        self.ran.append(f"{self.name}.method")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Equal)

    __hash__ = None  # type: ignore[assignment] - equal objects that are not the same


async def test_two_equal_callable_objects_are_two_cleanups() -> None:
    ran: list[str] = []
    coordinator = ModuleCoordinator()
    first = _Equal(ran, "first")

    for cleanup in (first, first, _Equal(ran, "second")):
        coordinator.register_cleanup(cleanup)
    await coordinator.cleanup()

    assert ran == ["second", "first"]


async def test_a_method_that_is_registered_and_returned_is_one_cleanup() -> None:
    ran: list[str] = []
    coordinator = ModuleCoordinator()
    one = _Equal(ran, "one")
    other = _Equal(ran, "other")

    for cleanup in (one.method, one.method, other.method, ran.clear, ran.clear):
        coordinator.register_cleanup(cleanup)
    await coordinator.release(ran.clear)
    await coordinator.cleanup()

    assert ran == ["other.method", "one.method"]


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("mount", ("nowhere", object())),
        ("mount", ("hooks", object())),
        ("mount", ("tools", object())),
        ("unmount", ("nowhere",)),
        ("unmount", ("tools",)),
        ("get", ("nowhere",)),
        ("get_mounted", ("nowhere",)),
        ("interpose", ("hooks", print)),
    ],
)
def test_a_refusal_says_and_carries_which_mount_point(
    method: str, arguments: tuple[Any, ...]
) -> None:
    named: dict[str, Any] = {"name": "w"} if method == "interpose" else {}
    with pytest.raises(MountError) as caught:
        getattr(ModuleCoordinator(), method)(*arguments, **named)

    assert caught.value.mount_point == arguments[0]
    assert arguments[0] in str(caught.value).lower()


async def test_a_session_is_asked_to_stop_gracefully_unless_immediate_is_said() -> None:
    coordinator = ModuleCoordinator()

    await coordinator.request_cancel()
    assert coordinator.cancellation.is_graceful
    await coordinator.request_cancel(immediate=True)
    assert coordinator.cancellation.is_immediate


async def test_a_name_that_is_no_text_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match="name must be a str, not int"):
        await ModuleCoordinator().mount("tools", SimpleNamespace(name=42))


async def test_a_cleanup_that_is_interrupted_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = ModuleCoordinator()
    coordinator.register_cleanup(raising(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        await coordinator.cleanup()

    assert "cleanup interrupted by KeyboardInterrupt" in caplog.text


def test_the_limits_of_mounting_are_the_configured_ones_or_two_minutes() -> None:
    config: dict[str, Any] = {"session": {}}
    coordinator = ModuleCoordinator(SimpleNamespace(session_id="s", parent_id=None, config=config))

    assert coordinator.mount_timeout == 120.0
    config["session"]["mount_timeout"] = 0.5
    assert coordinator.mount_timeout == 0.5


async def test_a_cleanup_has_half_a_minute_or_what_is_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config: dict[str, Any] = {"session": {}}
    coordinator = ModuleCoordinator(SimpleNamespace(session_id="s", parent_id=None, config=config))
    limits: list[float] = []
    loop = asyncio.get_running_loop()

    def immediately(delay: float, callback: Any, *args: Any, **kwargs: Any) -> Any:
        limits.append(delay)
        return loop.call_soon(callback, *args, **kwargs)

    async def never() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(loop, "call_later", immediately)
    await coordinator.release(never)
    assert set(limits) == {30.0}
    limits.clear()
    config["session"]["cleanup_timeout"] = 7.0
    await coordinator.release(never)

    assert set(limits) == {7.0}


async def test_a_hook_result_without_a_hook_is_of_an_unknown_one() -> None:
    coordinator, memory = ModuleCoordinator(), Memory()
    await coordinator.mount("context", memory)

    await coordinator.process_hook_result(inject("text"), "a:b")

    assert memory.messages[0]["metadata"]["hook_name"] == "unknown"


async def test_what_was_mounted_before_a_failed_module_stays_mounted(installed: Installer) -> None:
    async def half(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        await coordinator.mount("context", Memory())
        raise RuntimeError("boom")

    plan = installed.basics()
    installed.add("context-test", half)
    session, earlier = AmplifierSession(plan), Memory()
    await session.coordinator.mount("context", earlier)

    with pytest.raises(SessionError, match="boom"):
        await session.initialize()

    assert session.coordinator.get("context") is earlier


async def test_of_several_objects_each_has_to_be_what_its_mount_point_takes(
    installed: Installer,
) -> None:
    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        await coordinator.mount("tools", MockTool("good"))
        await coordinator.mount("tools", object(), name="odd")

    plan = installed.basics(tools=[{"module": "tool-both"}])
    installed.add("tool-both", mount)

    async with AmplifierSession(plan) as session:
        assert session.coordinator.get("tools") == {}
        assert [each.state for each in session.status.modules][-1] == "failed"


async def test_a_session_describes_what_it_consists_of(installed: Installer) -> None:
    installed.object("tool-note", "tools", MockTool("note"))
    session = AmplifierSession(installed.basics(tools=[{"module": "tool-note"}]), session_id="s")
    coordinator = session.coordinator
    coordinator.register_capability("session.working_dir", object())
    coordinator.register_contributor("session.cost", "provider", lambda: None)
    coordinator.hooks.register("tool:pre", raising(ValueError()), name="guard", on_error="deny")
    await session.initialize()
    await coordinator.mount("tools", MockTool("by_hand"))
    coordinator.interpose("tools", lambda _, tool: _Around(tool), name="far", priority=5)
    coordinator.interpose("tools", lambda _, tool: _Around(tool), name="near", inherit=True)
    coordinator.interpose("tools", lambda _, tool: tool, name="lets pass", priority=-1)

    described = coordinator.describe()

    around = f"{__name__}._Around"
    near = {"name": "near", "class": around, "priority": 0, "inherit": True}
    far = {"name": "far", "class": around, "priority": 5, "inherit": False}
    tool = {"class": "amplifier_core.testing.MockTool", "wrapped_by": [near, far]}
    assert json.loads(json.dumps(described)) == described
    assert described["mounted"]["tools"] == {
        "note": {**tool, "module": "tool-note"},
        "by_hand": {**tool, "module": None},
    }
    assert described["mounted"]["context"]["wrapped_by"] == []
    assert described["mounted"]["module-source-resolver"] is None
    assert "hooks" not in described["mounted"]
    assert described["handlers"] == coordinator.hooks.describe()
    assert described["capabilities"] == ["session.working_dir"]
    assert described["contributors"] == {"session.cost": ["provider"]}
    assert (described["session_id"], described["parent_id"]) == ("s", None)


async def test_a_coordinator_without_a_session_describes_what_is_mounted() -> None:
    coordinator = ModuleCoordinator()
    await coordinator.mount("context", Memory())

    assert coordinator.describe()["mounted"]["context"]["module"] is None


class _Around:
    def __init__(self, inner: Any) -> None:
        self.inner = inner


async def test_a_description_wraps_a_module_under_the_name_it_is_mounted_as() -> None:
    coordinator = ModuleCoordinator()
    await coordinator.mount("context", MockContextManager())
    await coordinator.mount("tools", MockTool("note"))
    names: list[str] = []

    def wrap(name: str, module: Any) -> Any:
        names.append(name)
        return _Around(module)

    coordinator.interpose("context", wrap, name="recorder")
    coordinator.interpose("tools", wrap, name="recorder")

    described = coordinator.describe()["mounted"]

    assert sorted(names) == ["context", "note"]
    assert [each["name"] for each in described["context"]["wrapped_by"]] == ["recorder"]
