"""What each published module takes from the kernel: the names it imports, the calls it makes."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from amplifier_core import (
    AmplifierSession,
    ChatResponse,
    ModuleCoordinator,
    TextBlock,
    ToolResult,
    llm_errors,
)
from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_core.utils.retry import RetryConfig, retry_with_backoff
from contract.doubles import Listener
from contract.installer import Installer, ScriptedProvider
from contract.requirements import requirement

# What the published modules import, by module and place; read from their sources.
IMPORTS = {
    "loop-basic": {
        "amplifier_core": "HookRegistry HookResult ModuleCoordinator",
        "amplifier_core.events": "CANCEL_COMPLETED CANCEL_REQUESTED CONTENT_BLOCK_END "
        "CONTENT_BLOCK_START ORCHESTRATOR_COMPLETE PROMPT_COMPLETE PROMPT_SUBMIT PROVIDER_ERROR "
        "PROVIDER_REQUEST PROVIDER_RESPONSE TOOL_ERROR TOOL_POST TOOL_PRE",
        "amplifier_core.llm_errors": "LLMError",
        "amplifier_core.message_models": "ChatRequest Message ToolSpec",
    },
    "loop-streaming": {
        "amplifier_core": "HookRegistry ModuleCoordinator ToolResult",
        "amplifier_core.events": "CANCEL_COMPLETED CANCEL_REQUESTED CONTENT_BLOCK_END "
        "CONTENT_BLOCK_START ORCHESTRATOR_COMPLETE PROMPT_SUBMIT PROVIDER_ERROR PROVIDER_REQUEST "
        "TOOL_ERROR TOOL_POST TOOL_PRE",
        "amplifier_core.llm_errors": "LLMError",
        "amplifier_core.message_models": "ChatRequest Message ToolSpec",
    },
    "provider-openai": {
        "amplifier_core": "ConfigField ModelInfo ModuleCoordinator ProviderInfo TextContent "
        "ThinkingContent ToolCallContent llm_errors",
        "amplifier_core.events": "PROVIDER_RETRY",
        "amplifier_core.message_models": "ChatRequest ChatResponse Message TextBlock ThinkingBlock "
        "ToolCall ToolCallBlock Usage",
        "amplifier_core.utils": "redact_secrets",
        "amplifier_core.utils.retry": "RetryConfig retry_with_backoff",
    },
    "other modules": {
        "amplifier_core": "ApprovalProvider ApprovalRequest ApprovalResponse AmplifierSession "
        "ModuleLoader ModuleValidationError",
        "amplifier_core.events": "ARTIFACT_READ ARTIFACT_WRITE APPROVAL_REQUIRED APPROVAL_GRANTED "
        "APPROVAL_DENIED",
        "amplifier_core.message_models": "ImageBlock",
        "amplifier_core.content_models": "TextContent ThinkingContent",
        "amplifier_core.interfaces": "ApprovalProvider ApprovalRequest ApprovalResponse",
        "amplifier_core.models": "HookResult",
        "amplifier_core.testing": "EventRecorder MockContextManager MockCoordinator",
    },
}
# The part before the colon of the events whose names have more than two words.
DOMAINS = ("CONTENT_BLOCK", "CONTEXT")


def _event(constant: str) -> str:
    """Return the event that a constant of this name stands for."""
    domain = next((each for each in DOMAINS if constant.startswith(f"{each}_")), None)
    domain = domain or constant.partition("_")[0]
    return f"{domain}:{constant.removeprefix(f'{domain}_')}".lower()


@requirement("PUB-1", "PUB-5", "PUB-14")
@pytest.mark.parametrize("module_id", IMPORTS)
def test_the_names_a_published_module_imports_are_where_it_looks_for_them(module_id: str) -> None:
    for home, names in IMPORTS[module_id].items():
        module = importlib.import_module(home)
        for name in names.split():
            found = getattr(module, name)
            if home == "amplifier_core.events":
                assert found == _event(name)
            elif isinstance(found, type):
                # One class, wherever it is imported from: what one module makes, another checks.
                assert getattr(importlib.import_module(found.__module__), name) is found


@requirement("PUB-5")
def test_a_native_tool_definition_fits_into_a_tool_spec() -> None:
    native = {"type": "apply_patch", "strict": True, "format": {"syntax": "lark"}}

    spec = ToolSpec(name="patch", description="Edits.", parameters={"type": "object"}, **native)

    assert spec.model_dump() == {
        "name": "patch",
        "description": "Edits.",
        "parameters": {"type": "object"},
        **native,
    }
    assert getattr(spec, "type") == "apply_patch"  # noqa: B009 - an extra field
    request = ChatRequest(messages=[], tools=[spec], reasoning_effort=None)
    assert request.model_dump()["tools"][0]["format"] == {"syntax": "lark"}


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
    simple: Any = importlib.import_module(
        "amplifier_module_contexts.context_simple"
    ).SimpleContextManager

    class Persistent(simple):
        """Extends the simple context with the keywords that context-persistent gives it."""

        def __init__(self, session_id: str | None, hooks: Any, **limits: Any) -> None:
            simple.__init__(
                self,
                max_tokens=limits.get("max_tokens", 200_000),
                compact_threshold=limits.get("compact_threshold", 0.92),
                target_usage=limits.get("target_usage", 0.50),
                protected_recent=limits.get("protected_recent", 0.10),
                truncate_chars=limits.get("truncate_chars", 250),
                hooks=hooks,
            )
            self.session_id = session_id

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
        config = config or {}
        session_id = getattr(coordinator, "session_id", None)
        context = Persistent(session_id, hooks=getattr(coordinator, "hooks", None), **config)
        await coordinator.mount("context", context)

    plan = installed.basics()
    installed.add("context-persistent", mount)
    plan["session"]["context"] = {"module": "context-persistent", "config": {"max_tokens": 1_000}}
    session = AmplifierSession(plan, session_id="s")
    heard = Listener()
    session.coordinator.hooks.register("context:compaction", heard)

    async with session:
        context = session.coordinator.get_mounted("context")
        for _ in range(50):
            await context.add_message({"role": "user", "content": "x" * 400})
        view = await context.get_messages_for_request(provider=None)

    assert isinstance(context, Persistent)
    assert context.session_id == "s"
    assert 0 < len(view) < len(await context.get_messages()) == 50
    # It was announced through the hooks of the session the context was mounted in.
    assert heard.data["session_id"] == "s"


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


class OpenAI(ScriptedProvider):
    """A provider that uses its coordinator as provider-openai does."""

    def __init__(self, coordinator: ModuleCoordinator, add_cost: Callable[[Decimal], None]) -> None:
        super().__init__(name="openai")
        self.coordinator = coordinator
        self.add_cost = add_cost
        self.engines: list[Any] = []
        self.is_open = True

    async def complete(self, request: Any, **kwargs: Any) -> ChatResponse:
        """Look for the engine, announce the request and count what it costs."""
        self.engines.append(self.coordinator.get_capability("apply_patch.engine"))
        if self.coordinator and hasattr(self.coordinator, "hooks"):
            payload = {"provider": "openai", "model": "m", "message_count": 1}
            await self.coordinator.hooks.emit("llm:request", payload)
        self.add_cost(Decimal("0.01"))
        return ChatResponse(content=[TextBlock(text="ok")])

    async def close(self) -> None:
        """Close the client."""
        self.is_open = False


async def _mount_openai(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Any:
    config = config or {}
    if not config.get("api_key"):
        return None
    costs: list[Decimal] = []
    provider = OpenAI(coordinator, costs.append)
    await coordinator.mount("providers", provider, name="openai")
    coordinator.register_contributor(
        "session.cost",
        "provider-openai",
        lambda: {"cost_usd": str(sum(costs))} if costs else None,
    )

    async def cleanup() -> None:
        await provider.close()

    return cleanup


def _openai_session(installed: Installer, key: str | None) -> AmplifierSession:
    plan = installed.basics()
    plan["providers"].append({"module": "provider-openai", "config": {"api_key": key}})
    installed.add("provider-openai", _mount_openai)
    return AmplifierSession(plan)


@requirement("PUB-16", "PROV-4")
async def test_provider_openai_mounts_by_name_and_contributes_its_cost(
    installed: Installer,
) -> None:
    session = _openai_session(installed, "sk-dummy")
    heard = Listener()
    session.coordinator.hooks.register("llm:request", heard)

    async with session:
        coordinator = session.coordinator
        assert list(coordinator.get("providers")) == ["test", "openai"]
        provider = coordinator.get_mounted("providers")["openai"]
        assert await coordinator.collect_contributions("session.cost") == []
        await provider.complete(None, extended_thinking=True)
        coordinator.register_capability("apply_patch.engine", "native")
        await provider.complete(None)
        costs = await coordinator.collect_contributions("session.cost")
        assert provider.is_open

    assert costs == [{"cost_usd": "0.02"}]
    assert provider.engines == [None, "native"]
    assert [data["provider"] for _, data in heard.calls] == ["openai", "openai"]
    assert not provider.is_open


@requirement("PUB-16", "PROV-4")
async def test_provider_openai_mounts_nothing_without_a_key(installed: Installer) -> None:
    async with _openai_session(installed, None) as session:
        assert list(session.coordinator.get("providers")) == ["test"]
        assert await session.coordinator.collect_contributions("session.cost") == []
        states = {each.module_id: each.state for each in session.status.modules}
        assert await session.execute("hi") == "answer to hi"

    assert states["provider-openai"] == "failed"
    assert states["provider-test"] == "mounted"
