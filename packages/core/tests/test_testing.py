"""The doubles of `amplifier_core.testing`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import amplifier_core
from amplifier_core import ChatRequest, ChatResponse, HookRegistry, HookResult, LLMError, Message
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.interfaces import ContextManager, Orchestrator, Provider, Tool
from amplifier_core.message_models import TextBlock, ToolCall
from amplifier_core.testing import (
    EventRecorder,
    MockContextManager,
    MockCoordinator,
    MockProvider,
    MockTool,
    RecordingHooks,
    ScriptedOrchestrator,
    TestCoordinator,
    create_test_coordinator,
    wait_for,
)
from contract.requirements import requirement


def request(text: str = "Hello") -> ChatRequest:
    return ChatRequest(messages=[Message(role="user", content=text)])


# --- coordinator ---------------------------------------------------------------------------------


@requirement("TEST-1")
async def test_the_mock_coordinator_is_a_real_one_of_a_session_that_does_not_exist() -> None:
    coordinator = MockCoordinator()

    assert isinstance(coordinator, ModuleCoordinator)
    assert (coordinator.session_id, coordinator.parent_id) == ("test-session", None)
    assert coordinator.config == {
        "session": {"orchestrator": "test-orchestrator", "context": "test-context"}
    }
    assert isinstance(coordinator.session, SimpleNamespace)
    assert coordinator.loader is None


@requirement("TEST-1")
async def test_mounts_and_unmounts_are_remembered_and_done() -> None:
    coordinator, tool = MockCoordinator(), MockTool("echo")

    await coordinator.mount("tools", tool, name="loud")
    assert coordinator.get("tools") == {"loud": tool}
    await coordinator.unmount("tools", name="loud")

    assert coordinator.get("tools") == {}
    assert coordinator.mount_history == [{"mount_point": "tools", "module": tool, "name": "loud"}]
    assert coordinator.unmount_history == [{"mount_point": "tools", "name": "loud"}]


async def test_the_mock_approval_system_says_yes_and_the_display_shows_nothing() -> None:
    coordinator = MockCoordinator()
    asking = HookResult(action="ask_user", approval_prompt="May I?")
    telling = HookResult(action="continue", user_message="hello")

    approvals: Any = coordinator.approval_system
    assert await approvals() == {"approved": True}
    assert (await coordinator.process_hook_result(asking, "tool:pre")).action == "continue"
    await coordinator.process_hook_result(telling, "tool:pre")
    display: Any = coordinator.display_system
    display.show_message.assert_called_once()


async def test_the_hooks_of_a_mock_coordinator_keep_the_handlers_they_were_given() -> None:
    coordinator = MockCoordinator()
    seen: list[dict[str, Any]] = []

    async def handler(event: str, data: dict[str, Any]) -> HookResult:
        seen.append(data)
        return HookResult()

    coordinator.hooks.register("tool:pre", handler, priority=3, name="one")
    coordinator.hooks.on("tool:post", handler)
    await coordinator.hooks.emit("tool:pre", {})

    hooks = coordinator.hooks
    assert isinstance(hooks, RecordingHooks)
    assert hooks is coordinator.get("hooks")
    assert hooks.registered == [("tool:pre", handler), ("tool:post", handler)]
    assert hooks.list_handlers("tool:pre") == {"tool:pre": ["one"]}
    assert seen[0]["session_id"] == "test-session"


@requirement("TEST-2")
def test_the_coordinator_has_the_name_of_the_seeds_too_and_is_not_collected() -> None:
    assert TestCoordinator is MockCoordinator
    assert TestCoordinator.__test__ is False


@requirement("TEST-7")
async def test_the_test_coordinator_comes_with_two_tools_and_a_context() -> None:
    coordinator = create_test_coordinator()
    tools = coordinator.get_mounted("tools")

    assert (await tools["echo"].execute({})).output == "Echo response"
    assert (await tools["fail"].execute({})).output is None
    assert isinstance(coordinator.get("context"), MockContextManager)
    assert coordinator.mount_history == []


# --- tool ----------------------------------------------------------------------------------------


@requirement("TEST-3")
async def test_the_mock_tool_succeeds_counts_and_remembers() -> None:
    tool = MockTool()
    await tool.execute({"first": 1})
    result = await tool.execute({"second": 2})

    assert isinstance(tool, Tool)
    assert (tool.name, tool.description) == ("mock_tool", "Mock tool: mock_tool")
    assert tool.input_schema == {"type": "object", "properties": {}}
    assert (result.success, result.output) == (True, "Success")
    assert (tool.call_count, tool.last_input) == (2, {"second": 2})
    tool.execute.assert_awaited_with({"second": 2})


@requirement("TEST-3")
async def test_the_mock_tool_takes_the_words_of_the_seeds() -> None:
    tool = MockTool(name="test_tool", description="Test tool", return_value=None)

    assert (await tool.execute({})).output is None
    assert (tool.name, tool.description) == ("test_tool", "Test tool")
    assert (await MockTool("other", "given").execute({})).output == "given"


async def test_the_behaviour_of_a_mock_tool_can_be_replaced() -> None:
    tool = MockTool()
    tool.execute.side_effect = RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        await tool.execute({})
    assert tool.call_count == 0


# --- provider ------------------------------------------------------------------------------------


@requirement("TEST-9")
async def test_the_mock_provider_answers_with_text() -> None:
    provider = MockProvider()
    response = await provider.complete(request("Hi"), extended_thinking=True)
    models = await provider.list_models()

    assert isinstance(provider, Provider)
    assert provider.name == provider.get_info().id == "mock"
    assert response.content == [TextBlock(text="Mock response")]
    assert provider.parse_tool_calls(response) == []
    assert provider.requests == [request("Hi")]
    assert models[0].context_window == provider.get_info().defaults["context_window"]


@requirement("TEST-9")
async def test_the_mock_provider_follows_its_script() -> None:
    call = ToolCall(id="1", name="echo", arguments={})
    wanting = ChatResponse(content=[], tool_calls=[call])
    provider = MockProvider([wanting, "text", LLMError("planted")], name="scripted")

    assert provider.parse_tool_calls(await provider.complete(request())) == [call]
    assert (await provider.complete(request())).content == [TextBlock(text="text")]
    with pytest.raises(LLMError, match="planted"):
        await provider.complete(request())
    assert (await provider.complete(request())).content == [TextBlock(text="Mock response")]
    assert (provider.name, provider.call_count) == ("scripted", 4)


# --- context -------------------------------------------------------------------------------------


@requirement("TEST-4")
async def test_the_mock_context_keeps_its_messages_readable() -> None:
    first, second = {"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}
    context = MockContextManager([first])
    await context.add_message(second)

    assert isinstance(context, ContextManager)
    assert await context.get_messages() is context.messages
    request_messages = await context.get_messages_for_request(token_budget=10, provider=None)
    assert request_messages == [first, second]
    assert request_messages is not context.messages


@requirement("TEST-4")
async def test_the_mock_context_can_be_filled_and_cleared_without_touching_others_lists() -> None:
    given = [{"role": "user", "content": "1"}]
    context = MockContextManager()
    await context.set_messages(given)
    assert context.messages == given
    await context.clear()

    assert context.messages == []
    assert len(given) == 1
    context.clear.assert_awaited_once()


# --- events --------------------------------------------------------------------------------------


@requirement("TEST-5")
async def test_the_recorder_keeps_events_with_copies_of_their_data() -> None:
    recorder, data = EventRecorder(), {"tool_name": "Write"}
    result = await recorder.emit("tool:pre", data)
    await recorder.record("tool:post", None)
    data["tool_name"] = "changed"

    assert result == HookResult(action="continue")
    assert recorder.get_events() == [("tool:pre", {"tool_name": "Write"}), ("tool:post", {})]
    assert recorder.get_events("tool:post") == [("tool:post", {})]
    recorder.clear()
    assert recorder.events == []


# --- orchestrator --------------------------------------------------------------------------------


@requirement("TEST-6")
async def test_the_scripted_orchestrator_gives_its_responses_then_done() -> None:
    orchestrator = ScriptedOrchestrator(["one"])
    context, hooks = MockContextManager(), EventRecorder()

    answers = [await orchestrator.execute(prompt, context, {}, {}, hooks) for prompt in ("a", "b")]

    assert isinstance(orchestrator, Orchestrator)
    assert answers == ["one", "DONE"]
    assert orchestrator.call_count == 2
    assert [message["content"] for message in context.messages] == ["a", "one", "b", "DONE"]
    assert hooks.events[:2] == [
        ("session:start", {"prompt": "a"}),
        ("session:end", {"response": "one"}),
    ]


# --- waiting -------------------------------------------------------------------------------------


@requirement("TEST-8")
async def test_waiting_tells_whether_it_came_true() -> None:
    countdown = iter([False, False, True])

    assert await wait_for(lambda: next(countdown), timeout=120)
    assert not await wait_for(lambda: False, timeout=0.02)


# --- as a whole ----------------------------------------------------------------------------------


@requirement("TEST-10")
async def test_the_examples_of_the_seeds_run() -> None:
    class MyProvider(MockProvider):
        pass

    async def mount(coordinator: Any, config: dict[str, Any]) -> Any:
        await coordinator.mount("providers", MyProvider(name="my-provider"))

        async def cleanup() -> None:
            await coordinator.unmount("providers", name="my-provider")

        return cleanup

    coordinator = create_test_coordinator()
    cleanup = await mount(coordinator, {"api_key": "test-key"})
    assert "my-provider" in coordinator.get_mounted("providers")
    await cleanup()
    assert coordinator.get_mounted("providers") == {}

    context = MockContextManager()
    result = await ScriptedOrchestrator(responses=["Response 1", "Response 2"]).execute(
        prompt="Test prompt",
        context=context,
        providers={"test": MockProvider()},
        tools={"test_tool": MockTool()},
        hooks=HookRegistry(),
    )
    assert result == "Response 1"
    assert len(context.messages) > 0


def test_the_doubles_can_be_had_from_the_top() -> None:
    assert amplifier_core.MockTool is MockTool
    assert amplifier_core.MockProvider is MockProvider
    assert amplifier_core.wait_for is wait_for


@pytest.mark.parametrize(
    "imported", ["amplifier_core.testing", "amplifier_core.validation", "amplifier_core"]
)
@requirement("VALID-21")
def test_neither_the_doubles_nor_the_validators_need_pytest(imported: str, tmp_path: Path) -> None:
    poisoned = "import sys; sys.modules['pytest'] = sys.modules['_pytest'] = None"
    run = subprocess.run(
        [sys.executable, "-c", f"{poisoned}; import {imported}; print('fine')"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )

    assert run.stdout.strip() == "fine"
