"""The code blocks of the orchestrator contract, run as written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, runtime_checkable

import pytest
import yaml

from amplifier_core import (
    AmplifierSession,
    HookRegistry,
    ModuleCoordinator,
    TextBlock,
    ToolCall,
    ToolResult,
    interfaces,
)
from amplifier_core.message_models import ChatRequest, ChatResponse, Message, Usage
from amplifier_core.testing import (
    EventRecorder,
    MockContextManager,
    MockCoordinator,
    MockProvider,
    MockTool,
    ScriptedOrchestrator,
)
from contract.doubles import Listener, ask, deny, inject, modify
from contract.requirements import requirement
from contract.seed_runs import (
    PLAN,
    compare_protocol,
    entry_points_of,
    events_of,
    module_names,
    run_body_and,
    run_part,
    run_tests_of,
)
from contract.seeds import BLOCKS, run_block, run_body
from contract.turns import Turn, calls, loop

SEEDED = Callable[[str], Path]
PROTOCOLS = {
    "ContextManager": interfaces.ContextManager,
    "Provider": interfaces.Provider,
    "Tool": interfaces.Tool,
    "HookRegistry": HookRegistry,
}


@requirement("SONE-1001")
async def test_our_orchestrator_protocol_is_the_shown_one() -> None:
    given: dict[str, Any] = {"runtime_checkable": runtime_checkable, "Protocol": Protocol}
    shown = (await run_block("S1:1001", {**given, **PROTOCOLS}))["Orchestrator"]

    compare_protocol(shown, interfaces.Orchestrator)

    own = module_names("orchestrator")["MyOrchestrator"]({})
    for orchestrator in (await loop(), ScriptedOrchestrator([]), own):
        assert isinstance(orchestrator, shown)
        assert isinstance(orchestrator, interfaces.Orchestrator)


# --- the flow of a turn --------------------------------------------------------------------------


class Flow:
    """Writes down the steps of a turn in the words of the contract's drawing."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    async def hear(self, event: str, data: dict[str, Any]) -> None:
        self.steps.append(f'emit("{event}")')

    def watch(self, turn: Turn) -> None:
        """Have the parts of a turn write down what is done with them."""
        for event in ("provider:request", "provider:response", "tool:pre", "tool:post"):
            turn.hooks.register(event, self.hear)
        self._before(turn.provider, "complete", lambda _: "provider.complete(messages)")
        self._before(turn.context, "add_message", self._added)
        for tool in turn.tools.values():
            self._before(tool, "execute", lambda _: "tool.execute(input)")

    def _added(self, message: dict[str, Any]) -> str:
        words = {"user": "Add to Context", "assistant": "Add response to context"}
        return words.get(message["role"], "Add result to context")

    def _before(self, owner: Any, name: str, step: Callable[[Any], str]) -> None:
        method = getattr(owner, name)

        async def watched(given: Any, *args: Any, **kwargs: Any) -> Any:
            self.steps.append(step(given))
            return await method(given, *args, **kwargs)

        setattr(owner, name, watched)


@requirement("SONE-1034")
@pytest.mark.parametrize("whose", ["loop-basic", "my-orchestrator"])
async def test_a_turn_flows_as_drawn(whose: str) -> None:
    drawn = dict(re.findall(r"(\d)\. (\S[^│]*?)\s*│", BLOCKS["S1:1034"].text))
    asking = [drawn[number] for number in "1234"]
    calling = [drawn[number] for number in "5678"]
    own = module_names("orchestrator")["MyOrchestrator"]({})
    turn = Turn(
        await loop() if whose == "loop-basic" else _WithoutCoordinator(own),
        calls("mock_tool"),
        calls("mock_tool"),
        "Final.",
        tools=[MockTool()],
    )
    flow = Flow()
    flow.watch(turn)

    answer = await turn.run()

    assert answer.endswith("Final.")
    assert flow.steps[0] == "Add to Context"
    assert flow.steps[1:] == [*asking, *calling, *asking, *calling, *asking]


class _WithoutCoordinator:
    """A loop that takes what the contract shows, and nothing else."""

    def __init__(self, orchestrator: Any) -> None:
        self._orchestrator = orchestrator

    async def execute(self, *, coordinator: Any, **given: Any) -> str:
        return await self._orchestrator.execute(**given)


# --- entry point ---------------------------------------------------------------------------------


@requirement("SONE-1066")
async def test_the_shown_mount_point_is_another_name_of_the_loops() -> None:
    own = module_names("orchestrator")["MyOrchestrator"]
    given: dict[str, Any] = {
        "ModuleCoordinator": ModuleCoordinator,
        "Orchestrator": interfaces.Orchestrator,
    }
    names = await run_block("S1:1066", {**given, "Callable": Callable, "MyOrchestrator": own})
    coordinator = MockCoordinator()

    returned = await names["mount"](coordinator, {"a": 1})

    assert isinstance(returned, own)
    assert coordinator.get("orchestrator") is returned
    assert coordinator.get_mounted("orchestrator") is returned


@requirement("SONE-1066", "SONE-1083", "SONE-1201")
async def test_the_shown_plan_leads_a_session_to_the_orchestrator(installed_seed: SEEDED) -> None:
    installed_seed("orchestrator")
    installed_seed("tool")
    section = yaml.safe_load(BLOCKS["S1:1201"].text)

    async with AmplifierSession({**PLAN, **section, "tools": [{"module": "my-tool"}]}) as session:
        answer = await session.execute("use my_tool for this")

    assert entry_points_of("S1:1083") == {"my-orchestrator": "my_orchestrator:mount"}
    assert section["session"] == {"orchestrator": "my-orchestrator", "context": "context-simple"}
    assert answer == (
        "my-orchestrator: [mock] I called my_tool and got: worked on use my_tool for this"
    )


# --- implementation ------------------------------------------------------------------------------


def emitted_keys() -> dict[str, list[str]]:
    """Return the data that the block about events shows for each of them."""
    text = BLOCKS["S1:1096"].text
    shown = re.findall(r'hooks\.emit\("([\w:]+)", \{(.*?)\}\)', text, re.DOTALL)
    return {event: re.findall(r'"(\w+)":', body) for event, body in shown}


@requirement("SONE-1096")
async def test_the_shown_events_are_emitted_with_the_shown_data() -> None:
    response = ChatResponse(
        content=[TextBlock(text="hi")],
        usage=Usage(input_tokens=1, output_tokens=1, total_tokens=2),
    )
    tool = MockTool()
    given: dict[str, Any] = {
        "provider_name": "mock",
        "messages": [{"role": "user", "content": "hi"}],
        "model_name": "mock-model",
        "provider": MockProvider([response]),
        "request": ChatRequest(messages=[Message(role="user", content="hi")]),
        "tool_call": ToolCall(id="call_1", name="mock_tool", arguments={"n": 1}),
        "tool": tool,
    }
    names = await run_block("S1:1096", given)
    hooks = HookRegistry()
    heard = Listener()
    for event in emitted_keys():
        hooks.register(event, heard)

    await names["execute"](None, "hi", None, {}, {}, hooks)

    assert heard.events == ["provider:request", "provider:response", "tool:pre", "tool:post"]
    data = dict(heard.calls)
    assert data["provider:request"]["messages"] == [{"role": "user", "content": "hi"}]
    assert data["provider:response"]["usage"]["total_tokens"] == 2
    assert data["tool:pre"]["tool_input"] == tool.last_input == {"n": 1}
    assert data["tool:post"]["tool_result"]["output"] == "Success"


@requirement("SONE-1096")
async def test_our_loop_emits_the_shown_data() -> None:
    turn = Turn(await loop(), calls("mock_tool"), "Done.", tools=[MockTool()])

    await turn.run()

    assert list(emitted_keys()) == [
        "provider:request",
        "provider:response",
        "tool:pre",
        "tool:post",
    ]
    missing = {
        (event, key)
        for event, keys in emitted_keys().items()
        for data in turn.told(event)
        for key in keys
        if key not in data
    }
    assert missing == {("provider:request", "messages")}


def answering(answer: Any) -> HookRegistry:
    """Return a registry with one handler of `tool:pre`."""
    hooks = HookRegistry()
    hooks.register("tool:pre", Listener(answer))
    return hooks


class Verbatim:
    """Hooks that give the answer of a handler as it is, which the registry does not for modify."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def emit(self, event: str, data: dict[str, Any]) -> Any:
        return self.answer


async def processed(hooks: Any, approved: bool = False, then: str = "") -> Any:
    """Run the block that handles the answer to `tool:pre`; return what it returns."""
    context = MockContextManager()

    async def request_approval(result: Any) -> bool:
        return approved and result.approval_prompt == "May I?"

    names: dict[str, Any] = {
        "hooks": hooks,
        "data": {"tool_name": "write"},
        "context": context,
        "ToolResult": ToolResult,
        "request_approval": request_approval,
    }
    if then:
        return await run_body_and("S1:1134", names, then)
    return await run_body("S1:1134", names)


@requirement("SONE-1134")
async def test_the_shown_handling_of_answers_works() -> None:
    denied = await processed(answering(deny("Access denied")))
    refused = await processed(answering(ask()))

    assert (denied.success, denied.output) == (False, "Access denied")
    assert (refused.success, refused.output) == (False, "User denied")
    assert await processed(answering(ask()), approved=True) is None
    assert await processed(answering(None)) is None
    added = await processed(answering(inject("Fix it.")), then="return context.messages")
    assert added == [{"role": "system", "content": "Fix it."}]


@requirement("SONE-1134")
async def test_changed_data_reaches_a_loop_in_the_answer() -> None:
    change = modify({"tool_name": "read"})

    taken = await processed(Verbatim(change), then="return data")
    answer = await processed(answering(change), then="return pre_result")

    assert taken == {"tool_name": "read"}
    assert (answer.action, answer.data["tool_name"]) == ("continue", "read")


@requirement("SONE-1164")
async def test_the_shown_messages_are_kept_in_order_and_asked_for() -> None:
    given: dict[str, Any] = {
        "context": MockContextManager(),
        "prompt": "hi",
        "response": SimpleNamespace(content="I call a tool."),
        "tool_call": ToolCall(id="call_1", name="t", arguments={}),
        "result": ToolResult(output="worked"),
    }

    names = await run_block("S1:1164", given)

    assert names["messages"] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "I call a tool."},
        {"role": "tool", "tool_call_id": "call_1", "content": "worked"},
    ]


@requirement("SONE-1186")
@pytest.mark.parametrize(
    ("config", "options", "chosen"),
    [
        ({}, {}, ("a", "a")),
        ({"default_provider": "b"}, {}, ("b", "a")),
        ({}, {"provider": "b"}, ("a", "b")),
    ],
)
async def test_a_provider_is_chosen_as_shown(
    config: dict[str, str], options: dict[str, str], chosen: tuple[str, str]
) -> None:
    providers = {"a": MockProvider(name="a"), "b": MockProvider(name="b")}
    given: dict[str, Any] = {"config": config, "providers": providers, "request_options": options}

    names = await run_block("S1:1186", {**given, "default_provider_name": "a"})

    assert (names["provider"].name, names["provider_name"]) == chosen


@requirement("SONE-1217")
async def test_the_shown_events_of_an_orchestrator_are_collected() -> None:
    words = ("loop_started", "loop_iteration", "loop_completed")

    assert await events_of("S1:1217") == [f"my-orchestrator:{word}" for word in words]


# --- testing -------------------------------------------------------------------------------------


@requirement("SONE-1273")
@pytest.mark.parametrize("whose", ["loop-basic", "my-orchestrator"])
async def test_the_shown_test_of_an_orchestrator_passes(whose: str) -> None:
    basic = await loop()

    def make(config: dict[str, Any]) -> Any:
        own = module_names("orchestrator")["MyOrchestrator"]
        return own(config=config) if whose == "my-orchestrator" else basic

    names: dict[str, Any] = {
        "pytest": pytest,
        "MyOrchestrator": make,
        "MockProvider": MockProvider,
        "HookRegistry": HookRegistry,
    }

    assert await run_tests_of("S1:1273", names) == ["test_orchestrator_basic"]

    assert names["EventRecorder"] is EventRecorder


@requirement("SONE-1304")
async def test_the_shown_scripted_orchestrator_answers_in_turn() -> None:
    given: dict[str, Any] = {
        "prompt": "hi",
        "context": MockContextManager(),
        "providers": {},
        "tools": {},
        "hooks": EventRecorder(),
    }
    # `...` stands for what an orchestrator is given.
    text = BLOCKS["S1:1304"].text
    assert text.count("execute(...)") == 1

    names = await run_part(text.replace("execute(...)", "execute(**given)"), {"given": given})

    assert await names["orchestrator"].execute(**given) == "Response 2"
