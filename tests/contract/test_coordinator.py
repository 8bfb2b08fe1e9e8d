"""Contract of the coordinator: identity, mount points, capabilities and cleanup."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import HookRegistry, ModuleCoordinator
from contract.doubles import Listener, Memory, inject, raising
from contract.requirements import requirement


def _named(name: Any) -> Any:
    return SimpleNamespace(name=name)


@requirement("COORD-1", "COORD-7")
def test_a_coordinator_without_a_session_is_empty_but_usable() -> None:
    coordinator = ModuleCoordinator()

    assert (coordinator.session_id, coordinator.parent_id) == ("", None)
    assert (coordinator.session, coordinator.config) == (None, {})
    assert coordinator.loader is None
    assert (coordinator.approval_system, coordinator.display_system) == (None, None)
    assert coordinator.session_state == {}


@requirement("COORD-2", "COORD-7")
def test_identity_and_config_come_from_the_session() -> None:
    config: dict[str, Any] = {"session": {}}
    session = SimpleNamespace(session_id="child", parent_id="parent", config=config)
    approvals: Any = object()
    display: Any = object()

    coordinator = ModuleCoordinator(session, approvals, display)

    assert coordinator.session is session
    assert (coordinator.session_id, coordinator.parent_id) == ("child", "parent")
    assert coordinator.config is config
    assert coordinator.approval_system is approvals
    assert coordinator.display_system is display
    coordinator.loader = coordinator.approval_system = coordinator.display_system = None
    coordinator.session_state = {"goal": "done"}
    assert coordinator.session_state == {"goal": "done"}


class _Config:
    def model_dump(self) -> dict[str, Any]:
        return {"session": {"injection_size_limit": 1}}


@requirement("COORD-3")
async def test_a_config_that_is_a_model_is_tolerated() -> None:
    session = SimpleNamespace(session_id="s", parent_id=None, config=_Config())

    coordinator = ModuleCoordinator(session)

    assert (coordinator.session_id, coordinator.config) == ("s", session.config)
    assert (coordinator.injection_budget_per_turn, coordinator.injection_size_limit) == (None, None)
    assert coordinator.mount_timeout > 0
    memory = Memory()
    await coordinator.mount("context", memory)
    await coordinator.process_hook_result(inject("longer than one"), "a:b", "h")
    assert [message["content"] for message in memory.messages] == ["longer than one"]
    assert (await coordinator.hooks.emit("a:b", {})).action == "continue"


@requirement("COORD-4")
def test_modules_may_put_attributes_on_a_coordinator() -> None:
    class Own(ModuleCoordinator):
        pass

    for coordinator in (ModuleCoordinator(), Own()):
        assert not hasattr(coordinator, "_tool_dispatch_contexts")
        contexts: dict[Any, Any] = {}
        setattr(coordinator, "_tool_dispatch_contexts", contexts)  # noqa: B010 - as modules do
        assert getattr(coordinator, "_tool_dispatch_contexts") is contexts  # noqa: B009 - as above


@requirement("COORD-5")
@pytest.mark.parametrize(
    "attribute",
    ["session_id", "parent_id", "session", "config", "hooks", "cancellation", "channels"],
)
def test_what_identifies_a_session_cannot_be_replaced(attribute: str) -> None:
    with pytest.raises(AttributeError):
        setattr(ModuleCoordinator(), attribute, None)


@requirement("COORD-6")
def test_mount_points_are_the_live_registry() -> None:
    coordinator = ModuleCoordinator()

    assert coordinator.mount_points == {
        "orchestrator": None,
        "providers": {},
        "tools": {},
        "context": None,
        "hooks": coordinator.hooks,
        "module-source-resolver": None,
    }
    assert isinstance(coordinator.hooks, HookRegistry)
    tool = _named("direct")
    coordinator.mount_points["tools"]["direct"] = tool
    assert coordinator.get("tools", "direct") is tool
    coordinator.mount_points = {**coordinator.mount_points, "tools": {}}
    assert coordinator.get("tools") == {}


@requirement("COORD-8")
def test_injection_limits_are_read_when_they_are_needed() -> None:
    config: dict[str, Any] = {}
    session = SimpleNamespace(session_id="s", parent_id=None, config=config)
    coordinator = ModuleCoordinator(session)
    assert coordinator.injection_budget_per_turn is None
    assert coordinator.injection_size_limit is None

    config["session"] = {"injection_budget_per_turn": 5, "injection_size_limit": 7}

    assert coordinator.injection_budget_per_turn == 5
    assert coordinator.injection_size_limit == 7


@requirement("COORD-9")
@pytest.mark.parametrize(
    ("point", "text"),
    [
        ("nowhere", "Unknown mount point: nowhere"),
        ("hooks", "Hooks should be registered directly with the HookRegistry"),
        ("providers", "Name required for providers"),
        ("tools", "Name required for tools"),
    ],
)
async def test_a_mount_that_cannot_be_is_refused_with_the_reason(point: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        await ModuleCoordinator().mount(point, object())


@requirement("COORD-10", "COORD-13", "TOOL-6")
async def test_a_named_point_uses_the_given_name_or_the_modules_own() -> None:
    coordinator = ModuleCoordinator()
    first, second, given = _named("bash"), _named("bash"), _named("other")

    await coordinator.mount("tools", first)
    await coordinator.mount("tools", second)
    await coordinator.mount("tools", given, name="given")

    assert coordinator.get("tools") == {"bash": second, "given": given}
    with pytest.raises(TypeError):
        await coordinator.mount("tools", _named(42))


@requirement("COORD-11", "COORD-12")
@pytest.mark.parametrize("point", ["orchestrator", "context", "module-source-resolver"])
async def test_a_single_slot_holds_the_module_mounted_last(
    point: str, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator = ModuleCoordinator()
    first, second = object(), object()

    await coordinator.mount(point, first, name="ignored")
    assert coordinator.get(point, "ignored") is first
    assert caplog.records == []

    await coordinator.mount(point, second)
    assert coordinator.get(point) is second
    warned = [record.levelname for record in caplog.records]
    assert warned == (["WARNING"] if point == "orchestrator" else warned)


@requirement("COORD-14")
async def test_mounting_takes_effect_without_being_awaited() -> None:
    coordinator = ModuleCoordinator()
    resolver, tool = object(), _named("t")

    _ = coordinator.mount("module-source-resolver", resolver)
    mounting = coordinator.mount("tools", tool)

    assert coordinator.get("module-source-resolver") is resolver
    assert coordinator.get("tools", "t") is tool
    assert await mounting is None
    unmounting = coordinator.unmount("tools", "t")
    assert coordinator.get("tools") == {}
    assert await unmounting is None


@requirement("COORD-15")
@pytest.mark.filterwarnings("ignore::Warning")
async def test_the_seeds_mount_point_for_loop_and_context_is_understood() -> None:
    coordinator = ModuleCoordinator()
    loop, context = object(), object()

    await coordinator.mount("session", loop, name="orchestrator")
    await coordinator.mount("session", context, name="context")

    assert coordinator.get("orchestrator") is loop
    assert coordinator.get("context") is context
    with pytest.raises(ValueError, match="Unknown mount point: session"):
        await coordinator.mount("session", object(), name="memory")


@requirement("COORD-16", "COORD-18")
async def test_unmounting_empties_the_place_and_runs_nothing() -> None:
    coordinator = ModuleCoordinator()
    cleaned: list[str] = []
    coordinator.register_cleanup(lambda: cleaned.append("cleaned"))
    await coordinator.mount("context", object())
    await coordinator.mount("tools", _named("bash"))

    await coordinator.unmount("context")
    await coordinator.unmount("tools", name="bash")
    await coordinator.unmount("tools", name="bash")
    await coordinator.unmount("hooks")

    assert coordinator.get("context") is None
    assert coordinator.get("tools", "bash") is None
    assert coordinator.get("hooks") is coordinator.hooks
    assert cleaned == []


@requirement("COORD-17")
@pytest.mark.parametrize(
    ("point", "text"),
    [("nowhere", "Unknown mount point"), ("tools", "Name required to unmount from tools")],
)
async def test_unmounting_what_cannot_be_named_is_refused(point: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        await ModuleCoordinator().unmount(point)


@requirement("COORD-19", "COORD-20", "COORD-21")
async def test_reading_gives_the_live_dict_one_module_or_none() -> None:
    coordinator = ModuleCoordinator()
    tools = coordinator.get("tools")
    tool, context = _named("bash"), object()
    await coordinator.mount("tools", tool)
    await coordinator.mount("context", context)

    assert tools == {"bash": tool}
    assert coordinator.get("tools") is tools
    assert coordinator.get("tools", "bash") is tool
    assert coordinator.get("tools", "absent") is None
    assert coordinator.get("orchestrator") is None
    assert coordinator.get("hooks") is coordinator.hooks
    assert coordinator.get_mounted("tools") == {"bash": tool}
    assert coordinator.get_mounted("context") is context
    with pytest.raises(ValueError, match="Unknown mount point: nowhere"):
        coordinator.get("nowhere")


@requirement("COORD-22")
def test_a_capability_is_any_value_under_a_name() -> None:
    coordinator = ModuleCoordinator()

    def spawn() -> None: ...

    coordinator.register_capability("workspace.path", "/old")
    coordinator.register_capability("workspace.path", "/home/user/project")
    coordinator.register_capability("agents.spawn", spawn)

    assert coordinator.get_capability("workspace.path") == "/home/user/project"
    assert coordinator.get_capability("agents.spawn") is spawn
    assert coordinator.get_capability("agents.list") is None


@requirement("COORD-23", "COORD-24", "COORD-27", "COORD-28")
async def test_cleanups_run_once_and_last_registered_first() -> None:
    coordinator = ModuleCoordinator()
    order: list[str] = []

    async def finish(name: str) -> None:
        order.append(name)

    async def asynchronous() -> None:
        await finish("async")

    for cleanup in (
        lambda: order.append("plain"),
        asynchronous,
        None,
        {"not": "callable"},
        lambda: finish("coroutine"),
        asynchronous,
    ):
        coordinator.register_cleanup(cleanup)

    assert await coordinator.cleanup() is None
    assert order == ["coroutine", "async", "plain"]
    await coordinator.cleanup()
    assert len(order) == 3


@requirement("COORD-25")
async def test_one_failing_cleanup_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = ModuleCoordinator()
    order: list[str] = []
    coordinator.register_cleanup(lambda: order.append("first"))
    coordinator.register_cleanup(raising(RuntimeError("boom")))
    coordinator.register_cleanup(lambda: order.append("last"))

    await coordinator.cleanup()

    assert order == ["last", "first"]
    assert "Error during cleanup" in caplog.text


@requirement("COORD-26")
@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
async def test_what_must_end_the_program_is_raised_after_every_cleanup(
    error: type[BaseException],
) -> None:
    coordinator = ModuleCoordinator()
    order: list[str] = []
    coordinator.register_cleanup(lambda: order.append("first"))
    coordinator.register_cleanup(raising(error()))
    coordinator.register_cleanup(raising(RuntimeError("boom")))

    with pytest.raises(error):
        await coordinator.cleanup()

    assert order == ["first"]


@requirement("COORD-30", "CANC-12")
@pytest.mark.parametrize(("immediate", "state"), [(False, "graceful"), (True, "immediate")])
async def test_requesting_cancellation_only_moves_the_token(immediate: bool, state: str) -> None:
    coordinator = ModuleCoordinator()
    heard, called = Listener(), Listener()
    for event in ("cancel:requested", "cancel:completed"):
        coordinator.hooks.register(event, heard)
    token = coordinator.cancellation
    token.on_cancel(lambda: called("cancelled", None))

    await coordinator.request_cancel(immediate=immediate)

    assert coordinator.cancellation is token
    assert token.state == state
    assert (heard.calls, called.calls) == ([], [])


@requirement("COORD-31")
async def test_a_coordinator_can_be_told_as_a_dict() -> None:
    coordinator = ModuleCoordinator()
    empty = coordinator.to_dict()
    assert empty == {
        "tools": [],
        "providers": [],
        "has_orchestrator": False,
        "has_context": False,
        "capabilities": [],
        "has_approval_provider": False,
        "has_display_service": False,
    }

    await coordinator.mount("tools", _named("bash"))
    await coordinator.mount("providers", _named("mock"))
    await coordinator.mount("orchestrator", object())
    await coordinator.mount("context", object())
    coordinator.register_capability("agents.list", print)
    service: Any = object()
    coordinator.approval_system = coordinator.display_system = service
    full = coordinator.to_dict()

    assert (full["tools"], full["providers"]) == (["bash"], ["mock"])
    assert full["capabilities"] == ["agents.list"]
    assert all(full[key] is True for key in full if key.startswith("has_"))
    coordinator.approval_system = None
    assert coordinator.to_dict()["has_approval_provider"] is False


@requirement("COORD-32")
def test_every_published_method_and_property_is_there() -> None:
    published = (
        "session session_id parent_id config loader hooks mount_points cancellation channels "
        "approval_system display_system session_state injection_budget_per_turn "
        "injection_size_limit mount unmount get get_mounted register_cleanup register_capability "
        "get_capability register_contributor collect_contributions process_hook_result cleanup "
        "reset_turn request_cancel to_dict interpose"
    )

    missing = [name for name in published.split() if not hasattr(ModuleCoordinator(), name)]

    assert missing == []


@requirement("COORD-33")
async def test_a_coordinator_for_a_session_stamps_its_identity_on_events() -> None:
    session = SimpleNamespace(session_id="s", parent_id="p", config={})
    coordinator = ModuleCoordinator(session)
    heard = Listener()
    coordinator.hooks.register("a:b", heard)

    await coordinator.hooks.emit("a:b", {})

    assert (heard.data["session_id"], heard.data["parent_id"]) == ("s", "p")
