"""Contract of the doubles that module authors test with."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import (
    ChatRequest,
    ContextManager,
    HookRegistry,
    HookResult,
    Message,
    ModuleCoordinator,
    Orchestrator,
    Provider,
    TextBlock,
    Tool,
    ToolResult,
    testing,
)
from amplifier_core.testing import (
    EventRecorder,
    MockContextManager,
    MockCoordinator,
    MockProvider,
    MockTool,
    ScriptedOrchestrator,
    create_test_coordinator,
    wait_for,
)
from contract.doubles import ask
from contract.requirements import requirement


@requirement("TEST-1")
async def test_the_coordinator_double_is_a_coordinator_with_a_memory() -> None:
    coordinator = MockCoordinator()
    tool = MockTool("t")

    await coordinator.mount("tools", tool, name="t")
    await coordinator.unmount("tools", name="t")

    assert isinstance(coordinator, ModuleCoordinator)
    assert (coordinator.session_id, coordinator.parent_id) == ("test-session", None)
    assert coordinator.config == {
        "session": {"orchestrator": "test-orchestrator", "context": "test-context"}
    }
    assert coordinator.session.session_id == "test-session"
    assert coordinator.loader is None
    assert coordinator.mount_history == [{"mount_point": "tools", "module": tool, "name": "t"}]
    assert coordinator.unmount_history == [{"mount_point": "tools", "name": "t"}]
    assert coordinator.get("tools") == {}
    assert (await coordinator.process_hook_result(ask(), "tool:pre")).action == "continue"
    await coordinator.process_hook_result(HookResult(user_message="hi"), "tool:pre")


@requirement("TEST-2")
def test_the_seeds_name_of_the_coordinator_double_works_and_is_no_test() -> None:
    kind: Any = testing.TestCoordinator

    assert isinstance(kind(), MockCoordinator)
    assert kind.__test__ is False


@requirement("TEST-3", "TOOL-1", "TOOL-2")
async def test_the_tool_double_takes_the_keywords_of_both_worlds() -> None:
    default, upstream = MockTool(), MockTool("up", "out")
    seed = MockTool(name="test_tool", description="Test tool", return_value="mock result")

    result = await seed.execute({"a": 1})
    await seed.execute({"a": 2})

    assert all(isinstance(tool, Tool) for tool in (default, upstream, seed))
    assert (default.name, default.description) == ("mock_tool", "Mock tool: mock_tool")
    assert default.input_schema == {"type": "object", "properties": {}}
    assert seed.description == "Test tool"
    assert isinstance(result, ToolResult)
    assert (result.success, result.output, result.error) == (True, "mock result", None)
    assert (seed.call_count, seed.last_input) == (2, {"a": 2})
    assert (await default.execute({})).output == "Success"
    assert (await upstream.execute({})).output == "out"
    seed.execute.assert_awaited_with({"a": 2})


@requirement("TEST-4")
async def test_the_context_double_keeps_messages_in_sight() -> None:
    context = MockContextManager()

    await context.add_message({"role": "user", "content": "Test"})
    request = await context.get_messages_for_request(token_budget=10, provider=None)
    request.clear()

    assert isinstance(context, ContextManager)
    assert len(context.messages) == 1
    assert await context.get_messages() == [{"role": "user", "content": "Test"}]
    await context.set_messages([{"role": "user", "content": "Other"}])
    assert context.messages == [{"role": "user", "content": "Other"}]
    assert MockContextManager([{"role": "user", "content": "x"}]).messages[0]["content"] == "x"


@requirement("TEST-5")
async def test_the_recorder_keeps_events_as_pairs_and_passes_for_a_registry() -> None:
    recorder = EventRecorder()
    data = {"tool_name": "Write"}

    result = await recorder.emit("tool:pre", data)
    await recorder.record("tool:post", {})
    data["tool_name"] = "changed later"

    assert isinstance(result, HookResult)
    assert result.action == "continue"
    assert recorder.events == [("tool:pre", {"tool_name": "Write"}), ("tool:post", {})]
    assert recorder.get_events("tool:pre") == [("tool:pre", {"tool_name": "Write"})]
    recorder.get_events().clear()
    assert len(recorder.get_events()) == 2
    recorder.clear()
    assert recorder.events == []


@requirement("TEST-6", "ORCH-1")
async def test_the_loop_double_gives_its_script_and_then_is_done() -> None:
    loop = ScriptedOrchestrator(responses=["Response 1", "Response 2"])
    context, recorder = MockContextManager(), EventRecorder()

    said = [await loop.execute("Test", context, {}, {}, recorder) for _ in range(3)]

    assert isinstance(loop, Orchestrator)
    assert said == ["Response 1", "Response 2", "DONE"]
    assert loop.call_count == 3
    assert context.messages[:2] == [
        {"role": "user", "content": "Test"},
        {"role": "assistant", "content": "Response 1"},
    ]
    assert recorder.events[:2] == [
        ("session:start", {"prompt": "Test"}),
        ("session:end", {"response": "Response 1"}),
    ]


@requirement("TEST-7")
async def test_a_prepared_coordinator_has_two_tools_and_a_context() -> None:
    coordinator = create_test_coordinator()

    tools = coordinator.get_mounted("tools")

    assert set(tools) == {"echo", "fail"}
    assert (await tools["echo"].execute({})).output == "Echo response"
    assert (await tools["fail"].execute({})).output is None
    assert isinstance(coordinator.get("context"), MockContextManager)


@requirement("TEST-8")
async def test_waiting_tells_whether_it_was_worth_it() -> None:
    state: list[int] = []
    asyncio.get_running_loop().call_soon(state.append, 1)

    async with asyncio.timeout(120):
        assert await wait_for(lambda: bool(state), timeout=120) is True
        assert await wait_for(lambda: False, timeout=0.01) is False


@requirement("TEST-9", "PROV-2")
async def test_the_provider_double_answers() -> None:
    provider = MockProvider()
    request = ChatRequest(messages=[Message(role="user", content="hi")])

    response = await provider.complete(request, temperature=0.5)

    assert isinstance(provider, Provider)
    assert provider.name == "mock"
    assert response.content == [TextBlock(text="Mock response")]
    assert provider.parse_tool_calls(response) == []
    assert isinstance(await provider.list_models(), list)
    assert provider.get_info().id


@requirement("TEST-10", "COORD-21")
async def test_the_seeds_examples_of_testing_a_module_run() -> None:
    async def validate(event: str, data: dict[str, Any]) -> HookResult:
        if data["tool_input"]["file_path"].startswith("/etc"):
            return HookResult(action="deny", reason="Access denied")
        return HookResult(action="continue")

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
        await coordinator.mount("providers", MockProvider(), name="my-provider")
        return coordinator.hooks.register("tool:pre", validate, priority=10)

    coordinator = testing.TestCoordinator()
    cleanup = await mount(coordinator, {"api_key": "test-key"})
    data = {"tool_name": "Write", "tool_input": {"file_path": "/etc/passwd"}}
    result = await coordinator.hooks.emit("tool:pre", data)

    assert "my-provider" in coordinator.get_mounted("providers")
    assert result.action == "deny"
    assert "denied" in (result.reason or "").lower()
    cleanup()
    assert (await coordinator.hooks.emit("tool:pre", data)).action == "continue"


@requirement("TEST-5", "TEST-10")
@pytest.mark.parametrize("method", ["emit", "record"])
async def test_the_recorder_can_be_registered_as_a_handler(method: str) -> None:
    recorder, registry = EventRecorder(), HookRegistry()
    registry.register("tool:pre", getattr(recorder, method))

    await registry.emit("tool:pre", {"n": 1})

    ((name, data),) = recorder.get_events()
    assert (name, data["n"]) == ("tool:pre", 1)
