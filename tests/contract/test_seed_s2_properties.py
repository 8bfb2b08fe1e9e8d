"""The blocks of the document Coordinator API on the properties of a coordinator, run as written."""

from __future__ import annotations

import re
from typing import Any

import pytest

from amplifier_core import AmplifierSession, HookRegistry, ModuleCoordinator, ModuleLoader
from amplifier_core.events import SESSION_FORK, TOOL_PRE
from contract.doubles import Listener
from contract.installer import Installer, mounting
from contract.requirements import requirement
from contract.seeds import BLOCKS, local_names, run_block
from contract.seeds.sessions import LOGGER, ShownTool, failures, session_with
from contract.seeds.signatures import Shown, assert_returns, shown_signature


def _getter(shown: Shown) -> Any:
    """Check that the coordinator has this property, with a result of the shown type."""
    assert shown.is_property
    assert shown.parameters == {}
    assert hasattr(ModuleCoordinator(), shown.name)
    attribute = vars(ModuleCoordinator).get(shown.name)
    if isinstance(attribute, property):
        assert attribute.fget is not None
        assert_returns(shown, attribute.fget)
    return attribute


def _assert_read_only(block: str) -> None:
    shown = shown_signature(block)
    assert isinstance(_getter(shown), property)
    with pytest.raises(AttributeError):
        setattr(ModuleCoordinator(), shown.name, None)


@requirement("STWO-37")
async def test_a_session_makes_the_coordinator_that_its_modules_are_given(
    installed: Installer,
) -> None:
    released: list[str] = []
    names: dict[str, Any] = {
        "AmplifierSession": AmplifierSession,
        "config": installed.basics(tools=[{"module": "tool-shown"}]),
        "my_function": lambda: "acted",
        "cleanup_function": lambda: released.append("cleaned up"),
    }
    shown = await run_block("S2:37", names)
    session = shown["session"]
    assert shown["coordinator"] is session.coordinator

    installed.add("tool-shown", shown["mount"])
    with local_names("S2:37") as seen:
        await session.initialize()

    assert seen["coordinator"] is session.coordinator
    assert (seen["session_id"], seen["parent_id"]) == (session.session_id, None)
    assert seen["context"] is installed.memory
    assert seen["providers"] == {"test": installed.provider}
    assert session.coordinator.get_capability("my_feature.action")() == "acted"
    assert released == []
    await session.cleanup()
    assert released == ["cleaned up"]


@requirement("STWO-79")
async def test_a_mount_reads_its_surroundings_from_the_properties(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    heard, later = Listener(), Listener()
    shown = await run_block("S2:79", {"logger": LOGGER, "my_hook": heard})
    session = session_with(
        installed, shown["mount"], {"a": 1}, session_id="child", parent_id="root"
    )

    with local_names("S2:79") as seen:
        await session.initialize()

    assert "Mounting in session child" in caplog.messages
    assert "  Child of session root" in caplog.messages
    assert seen["my_config"] == {"a": 1}
    assert seen["session_config"] == session.config["session"]
    assert seen["providers"] == {"test": installed.provider}
    session.coordinator.hooks.register(TOOL_PRE, later, priority=9, name="before priority 10")
    handlers = session.coordinator.hooks.list_handlers(TOOL_PRE)[TOOL_PRE]
    assert handlers[0] == "before priority 10"
    await session.coordinator.hooks.emit(TOOL_PRE, {"tool_name": "bash"})
    assert heard.data["tool_name"] == "bash"
    await session.cleanup()


@requirement("STWO-102")
async def test_the_session_is_the_one_that_made_the_coordinator(installed: Installer) -> None:
    session = AmplifierSession(installed.basics())

    _assert_read_only("S2:102")
    assert session.coordinator.session is session


@requirement("STWO-109")
async def test_a_module_spawns_a_child_session_from_its_parent(installed: Installer) -> None:
    plan = installed.basics(agents={"coder": {"max_iterations": 1}})
    shown = await run_block("S2:109", {"AmplifierSession": AmplifierSession})

    async with AmplifierSession(plan) as parent:
        with local_names("S2:109") as seen:
            answer = await shown["delegate_task"](parent.coordinator, "look it up")

    assert answer == "answer to look it up"
    child = seen["child_session"]
    assert child.parent_id == parent.session_id
    assert child.session_id != parent.session_id
    assert child.config["session"] == plan["session"]
    assert child.config["agents"] == {
        "coder": {"max_iterations": 1},
        "researcher": {"max_iterations": 5},
    }
    assert plan["agents"] == {"coder": {"max_iterations": 1}}


@requirement("STWO-136", "STWO-143")
async def test_the_session_id_is_in_logs_and_in_every_event(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Listener()
    shown = await run_block("S2:143", {"logger": LOGGER})
    session = session_with(installed, shown["mount"], session_id="seven")

    _assert_read_only("S2:136")
    with local_names("S2:143") as seen:
        await session.initialize()

    assert session.coordinator.session_id == "seven"
    assert "Tool initialized in session seven" in caplog.messages
    assert seen["cache_key"] == "cache:seven:results"
    session.coordinator.hooks.register("custom:event", heard)
    await session.coordinator.hooks.emit("custom:event", {})
    assert heard.data["session_id"] == "seven"
    await session.cleanup()


@requirement("STWO-164", "STWO-171")
@pytest.mark.parametrize(
    ("parent_id", "message"), [(None, "Root session"), ("root", "Child session of root")]
)
async def test_a_module_can_tell_a_child_session_from_a_root_session(
    installed: Installer, caplog: pytest.LogCaptureFixture, parent_id: str | None, message: str
) -> None:
    shown = await run_block("S2:171", {"logger": LOGGER})
    session = session_with(installed, shown["mount"], parent_id=parent_id)
    forks, heard = Listener(), Listener()
    session.coordinator.hooks.register(SESSION_FORK, forks)
    session.coordinator.hooks.register("custom:event", heard)

    _assert_read_only("S2:164")
    async with session:
        await session.coordinator.hooks.emit("custom:event", {})

    assert message in caplog.messages
    assert session.coordinator.parent_id == parent_id
    assert len(forks.calls) == (0 if parent_id is None else 1)
    assert heard.data["session_id"] == session.session_id
    assert heard.data["parent_id"] == parent_id


@requirement("STWO-188")
async def test_the_config_is_the_dictionary_that_the_session_was_given(
    installed: Installer,
) -> None:
    plan = installed.basics()

    _assert_read_only("S2:188")
    assert AmplifierSession(config=plan).coordinator.config is plan


@requirement("STWO-197")
async def test_a_session_runs_with_a_plan_of_the_shown_structure(installed: Installer) -> None:
    configs: dict[str, Any] = {}
    text = re.sub(r"\{\.\.\.\}", '{"of": "its own"}', BLOCKS["S2:197"].text)
    plan = eval(text)
    installed.object("loop-basic", "orchestrator", installed.loop)
    installed.object("context-simple", "context", installed.memory)
    installed.object("provider-anthropic", "providers", installed.provider, "anthropic")
    installed.object("tool-bash", "tools", ShownTool(), "bash")

    async def linter(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        configs["hook-linter"] = config

    installed.add("hook-linter", linter)

    async with AmplifierSession(plan) as session:
        coordinator = session.coordinator
        assert failures(session) == []
        assert [each.module_id for each in session.status.modules] == [
            "loop-basic",
            "context-simple",
            "provider-anthropic",
            "tool-bash",
            "hook-linter",
        ]
        assert coordinator.config["agents"] == {"researcher": {"max_iterations": 10}}
        assert coordinator.injection_budget_per_turn == 50000
        assert coordinator.injection_size_limit == 100000
        assert await session.execute("hi") == "answer to hi"
    assert configs == {"hook-linter": {"of": "its own"}}


@requirement("STWO-221")
async def test_a_mount_gets_its_own_config_and_reads_the_plan(installed: Installer) -> None:
    shown = await run_block("S2:221")

    with local_names("S2:221") as seen:
        async with session_with(installed, shown["mount"], {"timeout": 5}) as session:
            pass

    assert seen["my_setting"] == 5
    assert seen["session_config"] is session.config["session"]
    assert seen["orchestrator_name"] == "loop-test"
    assert seen["tool_configs"] is session.config["tools"]


@requirement("STWO-241")
async def test_the_loader_is_there_as_soon_as_the_coordinator_is(installed: Installer) -> None:
    session = AmplifierSession(installed.basics())
    shown = shown_signature("S2:241")

    _getter(shown)
    assert shown.returns is ModuleLoader
    assert isinstance(session.coordinator.loader, ModuleLoader)
    assert session.loader is session.coordinator.loader
    async with session:
        assert isinstance(session.coordinator.loader, ModuleLoader)
        assert session.loader is session.coordinator.loader


@requirement("STWO-248")
@pytest.mark.parametrize("wanted", [True, False])
async def test_a_module_loads_another_one_while_it_mounts(
    installed: Installer, wanted: bool
) -> None:
    released: list[str] = []
    tool = ShownTool()
    shown = await run_block("S2:248")

    def cleanup() -> None:
        released.append("dynamic")

    installed.add("tool-dynamic", mounting("tools", tool, "dynamic", returns=cleanup))
    config = {"dynamic_tool": "tool-dynamic"} if wanted else {}

    async with session_with(installed, shown["mount"], config) as session:
        assert failures(session) == []
        assert session.coordinator.get("tools") == ({"dynamic": tool} if wanted else {})
        assert released == []

    assert released == (["dynamic"] if wanted else [])


@requirement("STWO-267", "STWO-274")
async def test_a_module_registers_hooks_emits_events_and_unregisters(installed: Installer) -> None:
    heard, custom = Listener(), Listener()
    shown = await run_block("S2:274", {"my_validation_hook": heard})
    session = session_with(installed, shown["mount"], parent_id="root")
    hooks = session.coordinator.hooks
    hooks.register("custom:event", custom)

    _assert_read_only("S2:267")
    assert isinstance(hooks, HookRegistry)
    async with session:
        await hooks.emit(TOOL_PRE, {"tool_name": "bash"})

    assert heard.data["tool_name"] == "bash"
    assert custom.data["data"] == "example"
    assert custom.data["session_id"] == session.session_id
    assert custom.data["parent_id"] == "root"
    await hooks.emit(TOOL_PRE, {"tool_name": "too late"})
    assert len(heard.calls) == 1


@requirement("STWO-299", "STWO-308")
async def test_the_mount_points_have_the_shown_structure(installed: Installer) -> None:
    line = re.compile(r'^ +"(?P<point>[\w-]+)": (?P<value>.+?),? +# (?P<kind>\S+)', re.MULTILINE)
    kinds = {each["point"]: each["kind"] for each in line.finditer(BLOCKS["S2:308"].text)}
    installed.object("tool-shown", "tools", ShownTool())
    session = AmplifierSession(installed.basics(tools=[{"module": "tool-shown"}]))
    points = session.coordinator.mount_points

    _getter(shown_signature("S2:299"))
    assert isinstance(points, dict)
    assert set(points) == set(kinds)
    empty: dict[str, Any] = {"Single": None, "Optional": None, "Multiple": {}}
    for point, kind in kinds.items():
        if kind == "Built-in":
            assert points[point] is session.coordinator.hooks
        else:
            assert points[point] == empty[kind], point
    async with session:
        assert points["orchestrator"] is installed.loop
        assert points["context"] is installed.memory
        assert points["providers"] == {"test": installed.provider}
        assert list(points["tools"]) == ["my-tool"]


@requirement("STWO-319")
async def test_a_module_looks_through_the_mount_points(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    shown = await run_block("S2:319", {"logger": LOGGER})

    async with session_with(installed, shown["mount"]) as session:
        assert failures(session) == []

    assert "Provider available: test" in caplog.messages
    assert "Session has 0 tools mounted" in caplog.messages
    with pytest.raises(RuntimeError, match="No orchestrator mounted"):
        await shown["mount"](ModuleCoordinator(), {})
