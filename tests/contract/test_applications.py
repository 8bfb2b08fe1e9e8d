"""How applications use the kernel, and whole sessions from plan to cleanup."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from amplifier_core import AmplifierSession, HookResult, ModuleLoader, module_sources
from contract.doubles import Approvals, Display, Listener
from contract.installer import Installer, Loop, write_module
from contract.requirements import requirement

LOOP = """
    class Loop:
        async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
            await hooks.emit("prompt:submit", {"prompt": prompt})
            await context.add_message({"role": "user", "content": prompt})
            call = {"tool_name": "echo", "tool_input": {"text": prompt}}
            pre = await coordinator.process_hook_result(
                await hooks.emit("tool:pre", call), "tool:pre", "loop"
            )
            if pre.action == "deny":
                return f"Denied by hook: {pre.reason}"
            result = await tools["echo"].execute(call["tool_input"])
            post = await hooks.emit("tool:post", {**call, "result": result})
            seen = post.data.get("result", result)
            text = result.get_serialized_output() if seen is result else seen
            await context.add_message({"role": "tool", "tool_call_id": "1", "content": text})
            return text

    async def mount(coordinator, config):
        await coordinator.mount("orchestrator", Loop())
"""
CONTEXT = """
    class Memory:
        def __init__(self):
            self.messages = []
        async def add_message(self, message):
            self.messages.append(message)
        async def get_messages_for_request(self, token_budget=None, provider=None):
            return list(self.messages)
        async def get_messages(self):
            return list(self.messages)
        async def set_messages(self, messages):
            self.messages = list(messages)
        async def clear(self):
            self.messages = []

    async def mount(coordinator, config):
        await coordinator.mount("context", Memory())
"""
PROVIDER = """
    class Provider:
        name = "scripted"
        def get_info(self): ...
        async def list_models(self): ...
        async def complete(self, request, **kwargs): ...
        def parse_tool_calls(self, response): ...

    async def mount(coordinator, config):
        await coordinator.mount("providers", Provider(), name="scripted")
"""
TOOL = """
    from amplifier_core import ToolResult

    class Echo:
        name = "echo"
        description = "Says it again."
        input_schema = {"type": "object"}
        async def execute(self, input):
            return ToolResult(output={"said": input["text"], "ok": True})

    async def mount(coordinator, config):
        await coordinator.mount("tools", Echo(), name="echo")
"""
REDACTION = """
    from amplifier_core import HookResult

    async def mount(coordinator, config):
        async def scrub(event, data):
            return HookResult(action="modify", data={**data, "prompt": "[REDACTED]"})
        coordinator.hooks.on("prompt:submit", scrub, name="redaction", priority=10)
"""
APPROVAL = """
    from amplifier_core import HookResult

    async def mount(coordinator, config):
        async def guard(event, data):
            if data["tool_input"]["text"] == "danger":
                return HookResult(action="ask_user", approval_prompt="Really?")
            return HookResult()
        return coordinator.hooks.register("tool:pre", guard, priority=-10, name="approval")
"""
MODULES = {
    "accept-loop": LOOP,
    "accept-context": CONTEXT,
    "accept-provider": PROVIDER,
    "accept-tool": TOOL,
    "accept-redaction": REDACTION,
    "accept-approval": APPROVAL,
}
PLAN: dict[str, Any] = {
    "session": {"orchestrator": "accept-loop", "context": "accept-context"},
    "providers": [{"module": "accept-provider"}],
    "tools": [{"module": "accept-tool"}],
    "hooks": [{"module": "accept-redaction"}, {"module": "accept-approval"}],
}


class _AsyncResolver:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.order: list[str] = []

    async def async_resolve(
        self, module_id: str, source_hint: Any = None, profile_hint: Any = None
    ) -> Any:
        await asyncio.sleep(0)
        self.order.append(module_id)
        return _Folder(self.folder / module_id)

    def resolve(self, module_id: str, **_: Any) -> Any:
        raise module_sources.ModuleNotFoundError(module_id)


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def resolve(self) -> Path:
        return self._path


@requirement("PUB-20", "PUB-22", "ORCH-12")
async def test_a_whole_session_runs_through_an_async_resolver(
    installed: Installer, tmp_path: Path
) -> None:
    for module_id, source in MODULES.items():
        write_module(tmp_path / module_id, module_id, source)
    before = list(sys.path)
    resolver = _AsyncResolver(tmp_path)
    session = AmplifierSession(PLAN, approval_system=Approvals("Deny"))
    await session.coordinator.mount("module-source-resolver", resolver)
    heard = Listener()
    cleaned: list[str] = []
    session.coordinator.register_cleanup(lambda: cleaned.append("once"))
    for event in ("session:start", "session:end", "prompt:submit"):
        session.coordinator.hooks.register(event, heard, 90)

    async with asyncio.timeout(120):
        await session.initialize()
        first = await session.execute("hello")
        denied = await session.execute("danger")
        session.coordinator.hooks.register("tool:post", _shout)
        changed = await session.execute("hello")
        stored = await session.coordinator.get_mounted("context").get_messages()
        await session.cleanup()
        await session.cleanup()

    assert resolver.order == list(MODULES)
    assert first == '{"said": "hello", "ok": true}'
    assert denied == "Denied by hook: User denied: Really?"
    assert changed == "CHANGED"
    assert [message["content"] for message in stored] == [
        "hello",
        first,
        "danger",
        "hello",
        changed,
    ]
    prompts = [data["prompt"] for name, data in heard.calls if name == "prompt:submit"]
    assert prompts == ["[REDACTED]"] * 3
    assert heard.events.count("session:start") == 1
    assert heard.events.count("session:end") == 1
    assert cleaned == ["once"]
    assert sys.path == before


async def _shout(event: str, data: dict[str, Any]) -> HookResult:
    return HookResult(action="modify", data={**data, "result": "CHANGED"})


@requirement("PUB-21")
async def test_cancelling_a_parent_stops_the_tool_its_child_runs(installed: Installer) -> None:
    started = asyncio.Event()

    async def hang(**_: Any) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    async def delegate(coordinator: Any, **_: Any) -> str:
        async with coordinator.session.fork() as child:
            child.coordinator.hooks.register("cancel:completed", child_heard)
            children.append(child)
            installed.loop.act = hang
            return await child.execute("task")

    children: list[AmplifierSession] = []
    child_heard, parent_heard = Listener(), Listener()
    plan = installed.basics()
    parent = AmplifierSession(plan)
    parent.coordinator.hooks.register("cancel:completed", parent_heard)
    await parent.initialize()
    installed.loop.act = delegate

    async with asyncio.timeout(120):
        turn = asyncio.create_task(parent.execute("delegate"))
        await started.wait()
        await parent.coordinator.request_cancel(immediate=True)
        await asyncio.gather(turn, return_exceptions=True)

    assert children[0].coordinator.cancellation.state == "immediate"
    assert [data["was_immediate"] for _, data in child_heard.calls] == [True]
    assert [data["was_immediate"] for _, data in parent_heard.calls] == [True]


class _NothingKnown:
    def resolve(self, module_id: str, **_: Any) -> Any:
        raise module_sources.ModuleNotFoundError(module_id)


@requirement("PUB-19")
async def test_an_application_uses_the_whole_of_a_session(installed: Installer) -> None:
    loader = ModuleLoader()
    session = AmplifierSession(
        installed.basics(),
        loader=loader,
        session_id="app",
        parent_id=None,
        approval_system=Approvals(),
        display_system=Display(),
        is_resumed=True,
    )
    coordinator = session.coordinator
    await coordinator.mount("module-source-resolver", _NothingKnown())
    coordinator.register_capability("session.working_dir", "/project")
    coordinator.register_contributor("session.cost", "app", lambda: {"cost_usd": "0.5"})
    heard = Listener()
    coordinator.hooks.register("orchestrator:complete", heard, priority=999, name="capture")
    coordinator.hooks.set_default_fields(session_id="app", parent_id=None, bundle="mine")
    child = AmplifierSession(installed.basics(), parent_id="app")
    coordinator.cancellation.register_child(child.coordinator.cancellation)

    async with session:
        context = coordinator.get_mounted("context")
        await context.set_messages([{"role": "user", "content": "earlier"}])
        await coordinator.hooks.emit("orchestrator:complete", {"status": "success"})
        captured = {
            name: event
            for event, names in coordinator.hooks.list_handlers().items()
            for name in names
        }
        coordinator.hooks.unregister("capture")
        coordinator.session_state["active_mode"] = "plan"
        coordinator.cancellation.request_graceful()
        names = coordinator.cancellation.running_tool_names
        coordinator.cancellation.reset()
        coordinator.cancellation.unregister_child(child.coordinator.cancellation)
        costs = await coordinator.collect_contributions("session.cost")

    assert captured["capture"] == "orchestrator:complete"
    assert heard.data["bundle"] == "mine"
    assert (names, costs) == ([], [{"cost_usd": "0.5"}])
    assert child.coordinator.cancellation.is_graceful
    assert installed.memory.messages == [{"role": "user", "content": "earlier"}]
    assert isinstance(session.coordinator.get("orchestrator"), Loop)
