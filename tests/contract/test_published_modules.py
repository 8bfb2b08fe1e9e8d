"""What each published module takes from the kernel, by stand-ins that use it in the same way."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import pytest

from amplifier_core import (
    AmplifierSession,
    ChatResponse,
    ModuleCoordinator,
    TextBlock,
    ToolResult,
    ToolSpec,
    llm_errors,
)
from amplifier_core.utils.retry import RetryConfig, retry_with_backoff
from contract.installer import Installer, ScriptedProvider
from contract.requirements import requirement
from contract.stand_ins import Listener, Memory, inject

IMPORTS = {
    "amplifier_core": "HookRegistry HookResult ModuleCoordinator ToolResult ConfigField ModelInfo "
    "ProviderInfo TextContent ThinkingContent ToolCallContent llm_errors ApprovalProvider "
    "ApprovalRequest ApprovalResponse AmplifierSession ModuleLoader ModuleValidationError",
    "amplifier_core.events": "CANCEL_COMPLETED CANCEL_REQUESTED CONTENT_BLOCK_END "
    "CONTENT_BLOCK_START ORCHESTRATOR_COMPLETE PROMPT_COMPLETE PROMPT_SUBMIT PROVIDER_ERROR "
    "PROVIDER_REQUEST PROVIDER_RESPONSE PROVIDER_RETRY TOOL_ERROR TOOL_POST TOOL_PRE "
    "ARTIFACT_READ ARTIFACT_WRITE APPROVAL_REQUIRED APPROVAL_GRANTED APPROVAL_DENIED",
    "amplifier_core.llm_errors": "LLMError",
    "amplifier_core.message_models": "ChatRequest ChatResponse ImageBlock Message TextBlock "
    "ThinkingBlock ToolCall ToolCallBlock ToolSpec Usage",
    "amplifier_core.content_models": "TextContent ThinkingContent",
    "amplifier_core.interfaces": "ApprovalProvider ApprovalRequest ApprovalResponse",
    "amplifier_core.models": "HookResult",
    "amplifier_core.utils": "redact_secrets",
    "amplifier_core.utils.retry": "RetryConfig retry_with_backoff",
    "amplifier_core.testing": "EventRecorder MockContextManager MockCoordinator",
}


@requirement("PUB-1", "PUB-5", "PUB-14")
@pytest.mark.parametrize("home", IMPORTS)
def test_the_names_they_import_are_where_they_look_for_them(home: str) -> None:
    module = importlib.import_module(home)

    assert [name for name in IMPORTS[home].split() if not hasattr(module, name)] == []


@requirement("PUB-5")
def test_a_native_tool_definition_fits_into_a_tool_spec() -> None:
    native: dict[str, Any] = {"name": "patch", "parameters": {}, "type": "apply_patch"}

    assert ToolSpec(**native).model_dump()["type"] == "apply_patch"


class BasicLoop:
    """Runs one tool the way loop-basic does."""

    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: Any,
        tools: Any,
        hooks: Any,
        coordinator: ModuleCoordinator | None = None,
    ) -> str:
        """Emit, process, run, store."""
        result = await hooks.emit("prompt:submit", {"prompt": prompt})
        if coordinator:
            result = await coordinator.process_hook_result(result, "prompt:submit", "loop-basic")
        if result.action == "deny":
            return f"Operation denied: {result.reason}"
        await context.add_message({"role": "user", "content": prompt})
        ephemeral = None
        if result.action == "inject_context" and result.ephemeral and result.context_injection:
            ephemeral = {"role": result.context_injection_role, "content": result.context_injection}
        specs = [(tool.name, tool.description, tool.input_schema) for tool in tools.values()]
        name, _, _ = specs[0]
        if coordinator:
            coordinator.cancellation.register_tool_start("call_1", name)
        outcome = await tools[name].execute({"ephemeral": ephemeral})
        if coordinator:
            coordinator.cancellation.register_tool_complete("call_1")
        post = await hooks.emit("tool:post", {"tool_name": name, "result": outcome})
        left: dict[str, Any] = post.data or {}
        returned = left.get("result", outcome)
        content = outcome.get_serialized_output() if returned is outcome else str(returned)
        if coordinator and coordinator.cancellation.is_cancelled:
            state = coordinator.cancellation.state
            await hooks.emit("cancel:requested", {"orchestrator": "loop-basic", "state": state})
            if coordinator.cancellation.is_immediate:
                await coordinator.cancellation.trigger_callbacks()
        return content


class StdoutTool:
    """A tool with everything loop-basic reads."""

    name = "stdout"
    description = "Prints."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Give a dict, as shell tools do."""
        return ToolResult(output={"stdout": "héllo", "n": None, "seen": input["ephemeral"]})


async def _run_basic(coordinator: ModuleCoordinator | None, hooks: Any) -> str:
    memory = Memory()
    return await BasicLoop().execute(
        "hi", memory, {}, {"stdout": StdoutTool()}, hooks, coordinator=coordinator
    )


@requirement("PUB-2", "PUB-3", "PUB-4")
async def test_loop_basic_runs_tools_and_reads_hook_results() -> None:
    coordinator = ModuleCoordinator()
    heard = Listener()
    coordinator.hooks.register("cancel:requested", heard)
    coordinator.hooks.register("tool:post", Listener())
    coordinator.hooks.register(
        "prompt:submit", Listener(inject("note", ephemeral=True, context_injection_role="user"))
    )
    called: list[str] = []
    coordinator.cancellation.on_cancel(lambda: called.append("callback"))
    coordinator.cancellation.request_immediate()
    await coordinator.mount("orchestrator", BasicLoop())

    content = await _run_basic(coordinator, coordinator.hooks)

    assert content == (
        '{"stdout": "h\\u00e9llo", "n": null, "seen": {"role": "user", "content": "note"}}'
    )
    assert heard.data["state"] == "immediate"
    assert called == ["callback"]
    assert coordinator.cancellation.running_tools == set()


@requirement("PUB-3", "PUB-4")
async def test_loop_basic_runs_without_a_coordinator() -> None:
    hooks = ModuleCoordinator().hooks

    assert await _run_basic(None, hooks) == '{"stdout": "h\\u00e9llo", "n": null, "seen": null}'


@requirement("PUB-6", "PUB-7")
async def test_loop_streaming_keeps_its_state_on_the_coordinator() -> None:
    coordinator: Any = ModuleCoordinator()
    steered: list[str] = []

    coordinator.register_contributor(
        "observability.events", "loop-streaming", lambda: ["orchestrator:steering_injected"]
    )
    coordinator.register_capability("session.steer", steered.append)
    assert coordinator.get_capability("model_role_resolver") is None
    coordinator.session_state["goal"] = {"text": "ship"}
    assert not hasattr(coordinator, "_tool_dispatch_contexts")
    coordinator._tool_dispatch_contexts = {asyncio.current_task(): {"tool_call_id": "1"}}

    coordinator.get_capability("session.steer")("left")
    assert steered == ["left"]
    assert coordinator.session_state.get("goal") == {"text": "ship"}
    assert await coordinator.collect_contributions("observability.events") == [
        ["orchestrator:steering_injected"]
    ]
    assert coordinator._tool_dispatch_contexts[asyncio.current_task()]["tool_call_id"] == "1"


@requirement("PUB-10")
async def test_context_persistent_takes_its_place_from_the_coordinator(
    installed: Installer,
) -> None:
    class Persistent(Memory):
        def __init__(self, session_id: str | None, hooks: Any) -> None:
            super().__init__()
            self.session_id, self.hooks = session_id, hooks

        async def compact(self) -> None:
            await self.hooks.emit("context:compaction", {"before": 10, "after": 5})

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        context = Persistent(
            getattr(coordinator, "session_id", None), getattr(coordinator, "hooks", None)
        )
        await coordinator.mount("context", context)

    plan = installed.basics()
    installed.add("context-test", mount)
    session = AmplifierSession(plan, session_id="s")
    heard = Listener()
    session.coordinator.hooks.register("context:compaction", heard)

    async with session:
        context = session.coordinator.get("context")
        await context.compact()

    assert context.session_id == "s"
    assert heard.data["after"] == 5


@requirement("PUB-12", "PUB-13")
async def test_tool_modules_mount_several_tools_and_clean_up(installed: Installer) -> None:
    order: list[str] = []

    class FileTool:
        description = "A file tool."
        input_schema: dict[str, Any] = {}

        def __init__(self, name: str, coordinator: ModuleCoordinator, folder: str) -> None:
            self.name, self.coordinator, self.folder = name, coordinator, folder

        async def execute(self, input: dict[str, Any]) -> ToolResult:
            await self.coordinator.hooks.emit("artifact:read", {"path": self.folder, "bytes": 3})
            return ToolResult(output=self.folder)

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> Any:
        config = config or {}
        if "working_dir" not in config:
            config["working_dir"] = coordinator.get_capability("session.working_dir")
        assert coordinator.get_capability("mention_resolver") is None
        for name in ("read_file", "write_file", "edit_file"):
            tool = FileTool(name, coordinator, config["working_dir"])
            await coordinator.mount("tools", tool, name=tool.name)

        async def cleanup() -> None:
            order.append("closed")

        return cleanup

    installed.add("tool-files", mount)
    plan = installed.basics(tools=[{"module": "tool-files", "config": {}}])
    session = AmplifierSession(plan)
    session.coordinator.register_capability("session.working_dir", "/project")
    heard = Listener()
    session.coordinator.hooks.register("artifact:read", heard)

    async with session:
        tools = session.coordinator.get("tools")
        assert list(tools) == ["read_file", "write_file", "edit_file"]
        assert (await tools["read_file"].execute({})).output == "/project"

    assert (heard.data["path"], heard.data["bytes"]) == ("/project", 3)
    assert order == ["closed"]
    assert plan["tools"][0]["config"] == {}


@requirement("PUB-15")
async def test_provider_openai_retries_by_its_own_config() -> None:
    retry_config = RetryConfig(
        max_retries=2, initial_delay=0.0, max_delay=60.0, backoff_factor=2.0, jitter=True
    )
    attempts: list[int] = []
    told: list[tuple[int, str]] = []

    async def call() -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise llm_errors.RateLimitError("429", provider="openai", status_code=429)
        return "ok"

    async def on_retry(attempt: int, delay: float, error: llm_errors.LLMError) -> None:
        told.append((attempt, type(error).__name__))

    assert retry_config.max_retries == 2
    assert await retry_with_backoff(call, retry_config, on_retry=on_retry) == "ok"
    assert told == [(1, "RateLimitError"), (2, "RateLimitError")]


@requirement("PUB-16", "PROV-4")
@pytest.mark.parametrize("key", [None, "sk-dummy"])
async def test_provider_openai_mounts_by_name_or_not_at_all(
    installed: Installer, key: str | None
) -> None:
    closed: list[str] = []

    class Provider(ScriptedProvider):
        def __init__(self, coordinator: ModuleCoordinator) -> None:
            super().__init__(name="openai")
            self.coordinator = coordinator

        async def complete(self, request: Any, **kwargs: Any) -> ChatResponse:
            if self.coordinator and hasattr(self.coordinator, "hooks"):
                await self.coordinator.hooks.emit(
                    "llm:request", {"provider": "openai", "model": "m", "message_count": 1}
                )
            return ChatResponse(content=[TextBlock(text="ok")])

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> Any:
        if not (config or {}).get("api_key"):
            return None
        assert coordinator.get_capability("apply_patch.engine") is None
        await coordinator.mount("providers", Provider(coordinator), name="openai")
        coordinator.register_contributor("session.cost", "openai", lambda: {"cost_usd": "0.01"})

        async def cleanup() -> None:
            closed.append("client")

        return cleanup

    plan = installed.basics()
    plan["providers"].append({"module": "provider-openai", "config": {"api_key": key}})
    installed.add("provider-openai", mount)
    session = AmplifierSession(plan)
    heard = Listener()
    session.coordinator.hooks.register("llm:request", heard)

    async with session:
        provider = session.coordinator.get("providers", "openai")
        costs = await session.coordinator.collect_contributions("session.cost")
        if provider is not None:
            await provider.complete(None, extended_thinking=True)

    assert (provider is None) is (key is None)
    assert costs == ([] if key is None else [{"cost_usd": "0.01"}])
    assert closed == ([] if key is None else ["client"])
    assert len(heard.calls) == len(closed)
