"""The examples at the end of the document Coordinator API, run as written."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from amplifier_core import AmplifierSession, HookRegistry, HookResult, ModuleCoordinator
from amplifier_core.events import TOOL_POST, TOOL_PRE
from amplifier_core.testing import MockTool
from contract.doubles import Approvals, Listener, Memory, ask, deny, inject, modify
from contract.installer import Installer
from contract.requirements import requirement
from contract.seeds import local_names, run_block
from contract.seeds.sessions import LOGGER, ShownTool, failures, session_with


@requirement("STWO-1121")
async def test_the_structure_of_a_module_is_a_mount_that_returns_its_cleanup(
    installed: Installer,
) -> None:
    released: list[str] = []
    names = {"cleanup_function": lambda: released.append("cleaned up")}
    shown = await run_block("S2:1121", names)
    assert shown["HookResult"] is HookResult

    async with session_with(installed, shown["mount"]) as session:
        assert failures(session) == []
        assert released == []

    assert released == ["cleaned up"]


@requirement("STWO-1135")
async def test_a_tool_module_creates_mounts_and_cleans_up_its_tool(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    shown = await run_block("S2:1135", {"MyTool": ShownTool, "logger": LOGGER})

    async with session_with(installed, shown["mount"], {"setting": "loud"}) as session:
        assert failures(session) == []
        assert f"Mounting in session {session.session_id}" in caplog.messages
        tool = session.coordinator.get_mounted("tools")["my-tool"]
        assert tool.setting == "loud"
        assert tool.shutdowns == 0

    assert tool.shutdowns == 1
    assert caplog.messages.count("Tool cleanup complete") == 1


@requirement("STWO-1162")
async def test_a_hook_module_uses_the_context_and_the_tools(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    names = {"HookResult": HookResult, "logger": LOGGER, "datetime": datetime}
    shown = await run_block("S2:1162", names)
    bash = MockTool("bash")
    session = session_with(installed, shown["mount"], module_id="hooks-shown")
    installed.object("tool-bash", "tools", bash)
    session.config["tools"] = [{"module": "tool-bash"}]

    with local_names("S2:1162") as seen:
        await session.initialize()
        assert failures(session) == []
        assert seen["context"] is installed.memory
        assert seen["all_tools"] == {"bash": bash}
        assert seen["bash_tool"] is bash
    emit = session.coordinator.hooks.emit
    assert (await emit(TOOL_PRE, {"tool_name": "read"})).action == "continue"
    assert installed.memory.messages == []
    assert (await emit(TOOL_PRE, {"tool_name": "bash"})).action == "continue"

    assert "Tool read executing" in caplog.messages
    (message,) = installed.memory.messages
    assert message["role"] == "system"
    assert message["content"].startswith("Bash command logged at ")
    with pytest.raises(RuntimeError, match="Context manager required"):
        await shown["mount"](ModuleCoordinator(), {})
    await session.cleanup()


@requirement("STWO-1200")
async def test_agents_of_a_config_are_listed_read_and_spawned(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    shown = await run_block("S2:1200", {"AmplifierSession": AmplifierSession, "logger": LOGGER})
    overlay: dict[str, Any] = {"session": {"injection_size_limit": 9}}
    config = {"agents": {"researcher": overlay}}

    async with session_with(installed, shown["mount"], config) as session:
        get = session.coordinator.get_capability
        assert "Agent capabilities registered" in caplog.messages
        assert await get("agents.list")() == ["researcher"]
        assert await get("agents.get")("researcher") == overlay
        assert await get("agents.get")("nobody") == {}
        with pytest.raises(ValueError, match="Unknown agent: nobody"):
            await get("agents.spawn")("nobody", "a task")
        assert await get("agents.spawn")("researcher", task="look") == "answer to look"

    (handed,) = installed.loop.handed
    child = handed["coordinator"]
    assert child.parent_id == session.session_id
    assert child.injection_size_limit == 9
    assert child.config["session"]["orchestrator"] == "loop-test"
    assert session.coordinator.injection_size_limit is None


async def _run_tool(
    *answers: Any,
    event: str = TOOL_PRE,
    approvals: Any = None,
    hooks: HookRegistry | None = None,
) -> Any:
    """Run the block's function with hooks that give these answers, and return what it left."""
    coordinator = ModuleCoordinator(approval_system=approvals)
    coordinator._hooks = hooks or coordinator.hooks
    memory = Memory()
    await coordinator.mount("context", memory)
    posted = Listener()
    coordinator.hooks.register(TOOL_POST, posted)
    for answer in answers:
        coordinator.hooks.register(event, Listener(answer), name="registered")
    tool = ShownTool()
    shown = await run_block("S2:1248", {"tool": tool, "logger": LOGGER})
    error: PermissionError | None = None
    result: Any = None
    try:
        result = await shown["execute_with_hooks"](coordinator, "bash", {"command": "ls"})
    except PermissionError as raised:
        error = raised
    return result, error, tool.inputs, posted, memory.messages


@requirement("STWO-1248")
async def test_a_tool_runs_between_its_two_events() -> None:
    result, error, inputs, posted, messages = await _run_tool()

    assert error is None
    assert result.output == {"command": "ls"}
    assert inputs == [{"command": "ls"}]
    assert posted.data["tool_name"] == "bash"
    assert posted.data["tool_input"] == {"command": "ls"}
    assert posted.data["tool_result"]["output"] == {"command": "ls"}
    assert messages == []


@requirement("STWO-1248")
@pytest.mark.parametrize("answer", [deny("not here"), ask("not here")])
async def test_a_denied_tool_does_not_run(
    answer: HookResult, caplog: pytest.LogCaptureFixture
) -> None:
    approvals = Approvals("Deny")
    _, error, inputs, posted, _ = await _run_tool(answer, approvals=approvals)

    assert isinstance(error, PermissionError)
    assert "not here" in str(error)
    assert inputs == []
    assert posted.calls == []
    assert f"Tool bash blocked: {error}" in caplog.messages


class _Surfacing(HookRegistry):
    """A registry that gives `modify` as the action of an event that a handler changed."""

    async def emit(self, event: str, data: dict[str, Any] | None) -> HookResult:
        """Emit, and name the change."""
        result = await super().emit(event, data)
        return result.model_copy(update={"action": "modify"}) if event == TOOL_PRE else result


@requirement("STWO-1248")
@pytest.mark.parametrize("surfaces", [True, False])
async def test_a_changed_input_comes_back_in_the_data_of_the_result(surfaces: bool) -> None:
    changed = modify({"tool_name": "bash", "tool_input": {"command": "pwd"}})
    hooks = _Surfacing() if surfaces else HookRegistry()

    with local_names("S2:1248") as seen:
        _, _, inputs, posted, _ = await _run_tool(changed, hooks=hooks)

    assert seen["processed"].action == ("modify" if surfaces else "continue")
    assert seen["processed"].data["tool_input"] == {"command": "pwd"}
    if surfaces:
        assert inputs == [{"command": "pwd"}]
        assert posted.data["tool_input"] == {"command": "pwd"}


@requirement("STWO-1248")
async def test_an_injection_after_a_tool_is_stored() -> None:
    result, _, _, _, messages = await _run_tool(inject("two warnings"), event=TOOL_POST)

    assert result.success
    (message,) = messages
    assert message["content"] == "two warnings"
    assert message["metadata"]["event"] == TOOL_POST
    assert message["metadata"]["hook_name"] == "registered"


@requirement("STWO-1299", "STWO-1318")
async def test_events_of_all_modules_are_collected_sorted_and_counted(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    contributing = await run_block("S2:1299")
    collecting = await run_block("S2:1318", {"logger": LOGGER})

    async with session_with(installed, contributing["mount"]) as session:
        register = session.coordinator.register_contributor
        register("observability.events", "other", lambda: ["a:b", "my-module:error"])
        register("observability.events", "odd", lambda: "no list")
        events = await collecting["collect_all_events"](session.coordinator)

    assert events == ["a:b", "my-module:completed", "my-module:error", "my-module:started"]
    assert "System emits 4 unique events" in caplog.messages


@requirement("STWO-1343")
async def test_a_child_session_is_made_run_and_cleaned_up(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    cleaned: list[str] = []

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        coordinator.register_cleanup(lambda: cleaned.append(coordinator.session_id))
        memory = Memory()
        await coordinator.mount("context", memory)

    shown = await run_block("S2:1343", {"AmplifierSession": AmplifierSession, "logger": LOGGER})
    plan = installed.basics(tools=[])
    installed.add("context-test", mount)
    overlay = {"tools": [{"module": "tool-shown"}]}
    installed.object("tool-shown", "tools", ShownTool())

    async with AmplifierSession(plan, session_id="parent") as parent:
        answer = await shown["delegate_task"](parent.coordinator, "look", overlay)
        assert answer == "answer to look"
        (handed,) = installed.loop.handed
        child = handed["coordinator"]
        assert cleaned == [child.session_id]
        assert child.parent_id == "parent"
        assert child.session_id != "parent"
        assert f"Child session {child.session_id} spawned from parent" in caplog.messages
        assert list(handed["tools"]) == ["my-tool"]
        assert handed["providers"] == {"test": installed.provider}
        assert handed["context"] is not parent.coordinator.get("context")
        assert parent.coordinator.get("tools") == {}
    assert cleaned == [child.session_id, "parent"]
