"""The blocks of the document Coordinator API on mounting and cleaning up, run as written."""

from __future__ import annotations

import asyncio
import inspect
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, Orchestrator, Provider
from amplifier_core.testing import MockTool
from contract.doubles import Memory, raising
from contract.installer import Installer, Loop, ScriptedProvider
from contract.requirements import requirement
from contract.seeds import local_names, run_block
from contract.seeds.sessions import LOGGER, ShownTool, failures, session_with
from contract.seeds.signatures import assert_offers, shown_signature


@requirement("STWO-361")
async def test_a_module_mounts_offers_reads_and_cleans_up(installed: Installer) -> None:
    shown = await run_block("S2:361", {"MyTool": ShownTool})

    with local_names("S2:361") as seen:
        async with session_with(installed, shown["mount"]) as session:
            coordinator = session.coordinator
            assert failures(session) == []
            tool = coordinator.get_mounted("tools")["my-tool"]
            assert coordinator.get_capability("my-tool.analyze") == tool.analyze
            assert seen["context"] is installed.memory
            assert tool.shutdowns == 0

    assert tool.shutdowns == 1


@requirement("STWO-386")
async def test_mounting_is_a_coroutine_that_a_task_can_run() -> None:
    coordinator = ModuleCoordinator()

    assert_offers(shown_signature("S2:386"), coordinator.mount)
    mounting = coordinator.mount("tools", MockTool("bash"))
    assert asyncio.iscoroutine(mounting)
    assert await asyncio.create_task(mounting) is None
    assert await coordinator.mount("tools", MockTool("read"), "other") is None
    assert list(coordinator.get("tools")) == ["bash", "other"]


@requirement("STWO-386")
def test_mounting_and_unmounting_can_be_run_without_an_event_loop() -> None:
    coordinator = ModuleCoordinator()

    run: Any = asyncio.run
    assert run(coordinator.mount("tools", MockTool("bash"))) is None
    assert list(coordinator.get("tools")) == ["bash"]
    assert run(coordinator.unmount("tools", "bash")) is None
    assert coordinator.get("tools") == {}


@requirement("STWO-386")
@pytest.mark.parametrize(
    ("point", "module"),
    [("unknown", MockTool()), ("hooks", MockTool()), ("tools", object()), ("providers", object())],
)
async def test_mounting_at_the_wrong_point_or_without_a_name_is_a_value_error(
    point: str, module: Any
) -> None:
    with pytest.raises(ValueError, match=r"mount point|Name required|HookRegistry"):
        await ModuleCoordinator().mount(point, module)


@requirement("STWO-407")
async def test_single_slots_are_replaced_and_named_slots_are_extended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = ModuleCoordinator()
    names: dict[str, Any] = {
        "coordinator": coordinator,
        "orchestrator_instance": Loop(),
        "context_instance": Memory(),
        "provider": ScriptedProvider(),
        "tool": MockTool("not-this-name"),
    }
    bash = names["tool"]
    await coordinator.mount("context", Memory())
    await coordinator.mount("module-source-resolver", object())
    await coordinator.mount("module-source-resolver", object())

    await run_block("S2:407", names)

    assert coordinator.get("orchestrator") is names["orchestrator_instance"]
    assert coordinator.get("context") is names["context_instance"]
    assert coordinator.get("providers") == {"anthropic": names["provider"]}
    assert coordinator.get("tools") == {"bash": bash, "my-tool": names["tool"]}
    assert caplog.records == []
    await coordinator.mount("orchestrator", Loop())
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@requirement("STWO-443")
async def test_unmounting_is_a_coroutine_that_a_task_can_run() -> None:
    coordinator = ModuleCoordinator()
    await coordinator.mount("tools", MockTool("bash"))

    assert_offers(shown_signature("S2:443"), coordinator.unmount)
    unmounting = coordinator.unmount("tools", "bash")
    assert asyncio.iscoroutine(unmounting)
    assert await asyncio.create_task(unmounting) is None
    assert coordinator.get("tools") == {}
    with pytest.raises(ValueError, match="Unknown mount point"):
        await coordinator.unmount("unknown")
    with pytest.raises(ValueError, match="Name required"):
        await coordinator.unmount("tools")


@requirement("STWO-461")
async def test_unmounting_empties_slots_and_runs_no_cleanup() -> None:
    coordinator = ModuleCoordinator()
    new_provider = ScriptedProvider()
    cleaned: list[str] = []
    coordinator.register_cleanup(lambda: cleaned.append("too early"))
    await coordinator.mount("orchestrator", Loop())
    await coordinator.mount("context", Memory())
    for name in ("anthropic", "openai"):
        await coordinator.mount("providers", ScriptedProvider(), name=name)
    await coordinator.mount("tools", MockTool("bash"))

    await run_block("S2:461", {"coordinator": coordinator, "new_provider": new_provider})

    assert coordinator.get("orchestrator") is None
    assert coordinator.get("context") is None
    assert coordinator.get("tools") == {}
    assert coordinator.get("providers") == {"openai": new_provider}
    assert cleaned == []


@requirement("STWO-481", "STWO-499")
async def test_get_returns_modules_dicts_of_modules_or_none() -> None:
    coordinator = ModuleCoordinator()
    tool = MockTool("bash")
    provider = ScriptedProvider()
    assert_offers(shown_signature("S2:481"), coordinator.get)
    with pytest.raises(ValueError, match="unknown"):
        coordinator.get("unknown")

    empty = await run_block("S2:499", {"coordinator": coordinator})
    assert (empty["orchestrator"], empty["context"]) == (None, None)
    assert (empty["all_providers"], empty["all_tools"]) == ({}, {})
    assert (empty["anthropic"], empty["bash_tool"]) == (None, None)

    await coordinator.mount("orchestrator", loop := Loop())
    await coordinator.mount("context", memory := Memory())
    await coordinator.mount("tools", tool)
    await coordinator.mount("providers", provider, "anthropic")
    found = await run_block("S2:499", {"coordinator": coordinator})
    assert found["orchestrator"] is loop
    assert found["context"] is memory
    assert found["hooks"] is coordinator.hooks
    assert found["all_providers"] == {"anthropic": provider}
    assert found["all_tools"] == {"bash": tool}
    assert found["anthropic"] is provider
    assert found["bash_tool"] is tool


@requirement("STWO-521")
async def test_what_get_returns_has_the_shown_types() -> None:
    coordinator = ModuleCoordinator()
    names = {"coordinator": coordinator, "Orchestrator": Orchestrator, "Provider": Provider}
    empty = await run_block("S2:521", dict(names))
    assert (empty["orchestrator"], empty["providers"], empty["provider"]) == (None, {}, None)

    await coordinator.mount("orchestrator", Loop())
    await coordinator.mount("providers", ScriptedProvider(), "anthropic")
    full = await run_block("S2:521", dict(names))

    assert set(full["__annotations__"]) == {"orchestrator", "providers", "provider"}
    assert isinstance(full["orchestrator"], Orchestrator)
    assert isinstance(full["provider"], Provider)
    assert full["providers"] == {"anthropic": full["provider"]}


class _Connection:
    """The `connection` of a block, which notes when it is closed."""

    def __init__(self, order: list[str]) -> None:
        self.order = order

    async def close(self) -> None:
        """Note it."""
        self.order.append("connection")


@requirement("STWO-538", "STWO-552")
async def test_cleanups_are_plain_or_async_and_the_last_one_runs_first(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    order: list[str] = []

    class Tool(ShownTool):
        async def shutdown(self) -> None:
            order.append("tool")

    coordinator = ModuleCoordinator()
    names = {"coordinator": coordinator, "connection": _Connection(order), "MyTool": Tool}
    assert_offers(shown_signature("S2:538"), coordinator.register_cleanup)

    shown = await run_block("S2:552", {"logger": LOGGER, **names})
    cleanup = await shown["mount"](coordinator, {})
    coordinator.register_cleanup(cleanup)
    coordinator.register_cleanup(raising(RuntimeError("boom")))
    register: Any = coordinator.register_cleanup
    assert register(cleanup_fn=lambda: order.append("by keyword")) is None
    await coordinator.cleanup()

    assert order == ["by keyword", "tool", "connection"]
    assert caplog.messages[-2:] == ["Cleaned up async resources", "Cleaning up sync resources"]
    assert caplog.text.count("Error during cleanup") == 1

    order.clear()
    async with session_with(installed, shown["mount"]) as session:
        assert failures(session) == []
    assert order == ["tool"]


class _Equal:
    """A cleanup that equals every other of its class."""

    def __init__(self, order: list[str], name: str) -> None:
        self.order = order
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Equal)

    def __hash__(self) -> int:
        return 0

    def __call__(self) -> None:
        self.order.append(self.name)


@requirement("STWO-538")
async def test_two_callable_objects_that_compare_equal_are_two_cleanups() -> None:
    order: list[str] = []
    coordinator = ModuleCoordinator()
    for name in ("first", "second"):
        coordinator.register_cleanup(_Equal(order, name))

    await coordinator.cleanup()

    assert order == ["second", "first"]


@requirement("STWO-828", "STWO-836")
async def test_leaving_a_session_cleans_up_its_coordinator(installed: Installer) -> None:
    order: list[str] = []
    by_hand = ModuleCoordinator()
    by_hand.register_cleanup(lambda: order.append("by hand"))
    names: dict[str, Any] = {"AmplifierSession": AmplifierSession, "coordinator": by_hand}

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        coordinator.register_cleanup(lambda: order.append("session"))

    installed.add("tool-shown", mount)
    names["config"] = installed.basics(tools=[{"module": "tool-shown"}])
    assert_offers(shown_signature("S2:828"), by_hand.cleanup)

    await run_block("S2:836", names)

    assert installed.loop.handed[0]["prompt"] == "Do work"
    assert order == ["session", "by hand"]
    cleaning = by_hand.cleanup()
    assert inspect.iscoroutine(cleaning)
    assert await asyncio.create_task(cleaning) is None


@requirement("STWO-855")
async def test_cleanups_run_in_reverse_order_whatever_one_of_them_raises() -> None:
    order: list[str] = []

    async def cleanup_a() -> None:
        order.append("a")

    def cleanup_b() -> None:
        order.append("b")
        raise RuntimeError("boom")

    names: dict[str, Any] = {"cleanup_a": cleanup_a, "cleanup_b": cleanup_b}
    names["cleanup_c"] = lambda: order.append("c")
    await run_block("S2:855", {"coordinator": ModuleCoordinator(), **names})

    assert order == ["c", "b", "a"]


@requirement("STWO-872")
def test_resetting_the_turn_is_a_plain_call() -> None:
    session = SimpleNamespace(session_id="s", parent_id=None, config={})
    coordinator = ModuleCoordinator(session)
    coordinator._current_turn_injections = 7

    assert_offers(shown_signature("S2:872"), coordinator.reset_turn)
    reset: Any = coordinator.reset_turn
    assert reset() is None
    assert coordinator._current_turn_injections == 0
