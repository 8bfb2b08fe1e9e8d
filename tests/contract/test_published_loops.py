"""What the published loop-basic takes from the kernel: the calls it makes, in its order."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from amplifier_core import AmplifierSession, HookRegistry, ModuleCoordinator, ToolResult
from amplifier_core.events import (
    CANCEL_COMPLETED,
    CANCEL_REQUESTED,
    ORCHESTRATOR_COMPLETE,
    PROMPT_SUBMIT,
    PROVIDER_REQUEST,
    TOOL_POST,
    TOOL_PRE,
)
from amplifier_core.message_models import ChatRequest, Message, ToolCall, ToolSpec
from contract.doubles import Listener, Memory, deny, inject, modify, raising
from contract.installer import Installer, ScriptedProvider
from contract.requirements import requirement


class BasicLoop:
    """Makes the calls that loop-basic makes, in its order and with its arguments."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config

    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: dict[str, Any],
        tools: dict[str, Any],
        hooks: HookRegistry,
        coordinator: ModuleCoordinator | None = None,
    ) -> str:
        """Submit the prompt, ask the provider once, run its calls, return the last result."""
        result = await hooks.emit(PROMPT_SUBMIT, {"prompt": prompt})
        if coordinator:
            result = await coordinator.process_hook_result(result, "prompt:submit", "orchestrator")
            if result.action == "deny":
                return f"Operation denied: {result.reason}"
        await context.add_message({"role": "user", "content": prompt})
        (provider_name, provider), *_ = providers.items()
        result = await hooks.emit(PROVIDER_REQUEST, {"provider": provider_name, "iteration": 0})
        if coordinator:
            result = await coordinator.process_hook_result(
                result, "provider:request", "orchestrator"
            )
        messages = list(await context.get_messages_for_request(provider=provider))
        if result.action == "inject_context" and result.ephemeral and result.context_injection:
            role: Any = result.context_injection_role
            messages.append({"role": role, "content": result.context_injection})
        request = ChatRequest(
            messages=[Message(**message) for message in messages],
            tools=[
                ToolSpec(name=t.name, description=t.description, parameters=t.input_schema)
                for t in tools.values()
            ],
            reasoning_effort=self.config.get("reasoning_effort"),
        )
        response = await provider.complete(request)
        content = ""
        for call in response.tool_calls:
            content = await self._run(call, tools[call.name], hooks, coordinator)
        if coordinator and coordinator.cancellation.is_cancelled:
            await self._stop(hooks, coordinator)
        return content

    async def _run(
        self, call: Any, tool: Any, hooks: HookRegistry, coordinator: ModuleCoordinator | None
    ) -> str:
        if coordinator:
            coordinator.cancellation.register_tool_start(call.id, call.name)
        try:
            facts = {"tool_name": call.name, "tool_input": call.arguments}
            pre = await hooks.emit(TOOL_PRE, {**facts, "parallel_group_id": "g"})
            if coordinator:
                pre = await coordinator.process_hook_result(pre, "tool:pre", call.name)
                if pre.action == "deny":
                    return f"Denied by hook: {pre.reason}"
            result = await tool.execute(call.arguments)
            sent = result.to_dict() if hasattr(result, "to_dict") else result
            post = await hooks.emit(TOOL_POST, {**facts, "result": sent, "parallel_group_id": "g"})
            if coordinator:
                await coordinator.process_hook_result(post, "tool:post", call.name)
            returned = None if post.data is None else post.data.get("result")
            if returned is not None and returned is not sent:
                return json.dumps(returned) if isinstance(returned, dict | list) else str(returned)
            return result.get_serialized_output()
        finally:
            if coordinator:
                coordinator.cancellation.register_tool_complete(call.id)

    async def _stop(self, hooks: HookRegistry, coordinator: ModuleCoordinator) -> None:
        token = coordinator.cancellation
        facts = {"orchestrator": "loop-basic", "turn_count": 0}
        await hooks.emit(CANCEL_REQUESTED, {**facts, "state": str(token.state)})
        await token.trigger_callbacks()
        await hooks.emit(CANCEL_COMPLETED, {**facts, "was_immediate": token.is_immediate})
        await hooks.emit(ORCHESTRATOR_COMPLETE, {**facts, "status": "cancelled"})


async def _mount_basic_loop(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> None:
    await coordinator.mount("orchestrator", BasicLoop(config or {}))


class StdoutTool:
    """A tool with everything loop-basic reads."""

    name = "stdout"
    description = "Prints."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}

    def __init__(self, act: Callable[[], Any] = lambda: None) -> None:
        self.act = act

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Give a dict, as shell tools do."""
        self.act()
        return ToolResult(output={"stdout": "héllo", "n": None, "seen": input})


def _basic_session(installed: Installer, tool: StdoutTool | None = None) -> AmplifierSession:
    """Return a session of that loop, with a model that calls the tool once."""
    call = ToolCall(id="call_1", name="stdout", arguments={"x": 1})
    installed.provider = ScriptedProvider([call])
    plan = installed.basics(
        session={"orchestrator": {"module": "loop-basic", "config": {"reasoning_effort": "low"}}},
        tools=[{"module": "tool-stdout"}],
    )
    installed.add("loop-basic", _mount_basic_loop)
    installed.object("tool-stdout", "tools", tool or StdoutTool())
    return AmplifierSession(plan)


OUTPUT = '{"stdout": "h\\u00e9llo", "n": null, "seen": {"x": 1}}'


@requirement("PUB-2", "PUB-4")
async def test_loop_basic_mounts_itself_and_runs_the_tools_of_a_turn(installed: Installer) -> None:
    async with _basic_session(installed) as session:
        assert isinstance(session.coordinator.get("orchestrator"), BasicLoop)
        note = inject("note", ephemeral=True, context_injection_role="user")
        session.coordinator.hooks.register("provider:request", Listener(note))

        assert await session.execute("hi") == OUTPUT

    (request,) = installed.provider.requests
    assert [(each.role, each.content) for each in request.messages] == [
        ("user", "hi"),
        ("user", "note"),
    ]
    assert [each.name for each in request.tools or []] == ["stdout"]
    assert request.reasoning_effort == "low"
    assert [message["content"] for message in installed.memory.messages] == ["hi"]


@requirement("PUB-2")
async def test_loop_basic_obeys_what_hooks_answer(installed: Installer) -> None:
    async with _basic_session(installed) as session:
        hooks = session.coordinator.hooks
        changed = modify({"tool_name": "stdout", "result": {"clean": True}})
        remove = hooks.register("tool:post", Listener(changed))
        assert await session.execute("one") == '{"clean": true}'
        remove()
        hooks.register("tool:post", Listener(inject("lint")), name="linter")
        assert await session.execute("two") == OUTPUT
        assert installed.memory.messages[-1]["content"] == "lint"
        assert installed.memory.messages[-1]["metadata"]["hook_name"] == "linter"
        hooks.register("tool:pre", Listener(deny("not now")))
        assert await session.execute("three") == "Denied by hook: not now"
        hooks.register("prompt:submit", Listener(deny("enough")))
        assert await session.execute("four") == "Operation denied: enough"
        assert session.coordinator.cancellation.running_tools == set()


@requirement("PUB-2")
async def test_loop_basic_tracks_its_tools_and_triggers_the_callbacks(installed: Installer) -> None:
    running: list[Any] = []
    called: list[str] = []

    def look() -> None:
        token = session.coordinator.cancellation
        running.append((token.running_tools, token.running_tool_names))
        token.request_graceful()

    async def flush() -> None:
        called.append("async")

    session = _basic_session(installed, StdoutTool(look))
    heard = Listener()
    for event in ("cancel:requested", "orchestrator:complete"):
        session.coordinator.hooks.register(event, heard)
    session.coordinator.cancellation.on_cancel(lambda: called.append("sync"))
    session.coordinator.cancellation.on_cancel(raising(RuntimeError("boom")))
    session.coordinator.cancellation.on_cancel(flush)

    async with session:
        assert await session.execute("hi") == OUTPUT
        assert session.coordinator.cancellation.running_tools == set()

    assert running == [({"call_1"}, ["stdout"])]
    assert called == ["sync", "async"]
    assert heard.events == ["cancel:requested", "orchestrator:complete"]
    assert heard.calls[0][1]["state"] == "graceful"


@requirement("PUB-3", "PUB-4")
async def test_loop_basic_runs_without_a_coordinator() -> None:
    provider = ScriptedProvider([ToolCall(id="c", name="stdout", arguments={"x": 1})])
    tools = {"stdout": StdoutTool()}
    hooks = ModuleCoordinator().hooks

    assert await BasicLoop({}).execute("hi", Memory(), {"m": provider}, tools, hooks) == OUTPUT
