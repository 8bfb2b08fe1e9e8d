"""The blocks of the document Core Contracts on the life of a module, run as written."""

from __future__ import annotations

import ast
import functools
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, ToolResult
from amplifier_core.events import ALL_EVENTS
from contract.doubles import Listener
from contract.installer import Installer, ScriptedProvider
from contract.requirements import requirement
from contract.seeds import BLOCKS, run_block
from contract.seeds.sessions import ShownTool, failures, session_with
from contract.seeds.signatures import shown_function


def _only_function(block: str) -> ast.AsyncFunctionDef:
    (function,) = [
        node
        for node in ast.parse(BLOCKS[block].text).body
        if isinstance(node, ast.AsyncFunctionDef)
    ]
    return function


@requirement("STHREE-163")
@pytest.mark.parametrize("module_id", ["tool-shown", "hooks-shown"])
async def test_a_mount_of_the_shown_signature_is_a_module(
    installed: Installer, module_id: str
) -> None:
    shown = await run_block("S3:163")
    mount = shown_function(_only_function("S3:163"))

    assert (mount.name, mount.is_async) == ("mount", True)
    assert mount.parameters["config"] == (dict[str, Any] | None, None)
    assert mount.returns == Callable[[], None | Awaitable[None]] | None
    session = session_with(installed, shown["mount"], module_id=module_id)
    await session.initialize()
    assert failures(session) == []
    assert session.coordinator._cleanup_fns == []
    await session.cleanup()


class _Client:
    """The `MyClient` of a block."""

    def __init__(self, url: str | None) -> None:
        self.url = url
        self.closed = 0

    @classmethod
    async def connect(cls, url: str | None) -> _Client:
        """Make one."""
        return cls(url)

    async def aclose(self) -> None:
        """Count."""
        self.closed += 1


@requirement("STHREE-183")
@pytest.mark.parametrize("module_id", ["tool-shown", "hooks-shown"])
async def test_an_async_closure_is_awaited_when_the_session_ends(
    installed: Installer, module_id: str
) -> None:
    shown = await run_block("S3:183", {"MyClient": _Client, "Any": Any})
    url = {"url": "tcp://there"}

    async with session_with(installed, shown["mount"], url, module_id=module_id) as session:
        assert failures(session) == []
        client = session.coordinator.get_capability("my.client")
        assert client.url == "tcp://there"
        assert client.closed == 0

    assert client.closed == 1
    unconfigured = ModuleCoordinator()
    cleanup = await shown["mount"](unconfigured)
    assert unconfigured.get_capability("my.client").url is None
    await cleanup()


class _Callable:
    """An object that can be called."""

    def __init__(self, order: list[str]) -> None:
        self.order = order

    def __call__(self) -> None:
        self.order.append("object")


class _AsyncCallable:
    """An object whose call is to be awaited."""

    def __init__(self, order: list[str]) -> None:
        self.order = order

    async def __call__(self) -> None:
        self.order.append("async object")


@requirement("STHREE-175")
@pytest.mark.parametrize("module_id", ["tool-shown", "hooks-shown"])
@pytest.mark.parametrize("kind", ["partial", "builtin", "object", "async object", "coroutine"])
async def test_every_kind_of_callable_is_a_cleanup(
    installed: Installer, module_id: str, kind: str
) -> None:
    order: list[str] = ["before"]

    async def later() -> None:
        order.append("coroutine")

    cleanups: dict[str, Any] = {
        "partial": functools.partial(order.append, "partial"),
        "builtin": order.clear,
        "object": _Callable(order),
        "async object": _AsyncCallable(order),
        "coroutine": lambda: later(),
    }

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
        return cleanups[kind]

    async with session_with(installed, mount, module_id=module_id) as session:
        assert failures(session) == []
        assert order == ["before"]

    assert order == ([] if kind == "builtin" else ["before", kind])


@requirement("STHREE-175")
@pytest.mark.parametrize("module_id", ["tool-shown", "hooks-shown"])
@pytest.mark.parametrize("returned", [None, {"not": "callable"}, "text", 0])
async def test_what_cannot_be_called_is_ignored_in_silence(
    installed: Installer, caplog: pytest.LogCaptureFixture, module_id: str, returned: Any
) -> None:
    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
        return returned

    async with session_with(installed, mount, module_id=module_id) as session:
        assert failures(session) == []
        assert session.coordinator._cleanup_fns == []
    assert caplog.records == []


@requirement("STHREE-198")
async def test_a_ready_function_of_the_shown_signature_is_called_once_per_session(
    installed: Installer,
) -> None:
    shown = await run_block("S3:198")
    ready = shown_function(_only_function("S3:198"))
    called: list[Any] = []

    async def on_session_ready(*given: Any, **named: Any) -> dict[str, str]:
        await shown["on_session_ready"](*given, **named)
        called.append((given, named))
        return {"return value": "ignored"}

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None: ...

    assert (ready.name, ready.is_async) == ("on_session_ready", True)
    assert list(ready.parameters) == ["coordinator"]
    installed.add("tool-shown", mount, on_session_ready=on_session_ready)
    session = AmplifierSession(installed.basics(tools=[{"module": "tool-shown"}]))
    await session.initialize()
    await session.initialize()

    assert called == [((session.coordinator,), {})]
    await session.cleanup()


@requirement("STHREE-211")
async def test_ready_callbacks_of_one_kind_run_in_the_order_of_the_plan(
    installed: Installer,
) -> None:
    order: list[str] = []

    def add(module_id: str, point: str | None = None) -> dict[str, str]:
        async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
            thing = ScriptedProvider() if point == "providers" else ShownTool()
            if point is not None:
                await coordinator.mount(point, thing, name=module_id)
            order.append(f"mount {module_id}")

        async def on_session_ready(coordinator: ModuleCoordinator) -> None:
            order.append(f"ready {module_id}")

        installed.add(module_id, mount, on_session_ready=on_session_ready)
        return {"module": module_id}

    plan = installed.basics()
    plan["providers"] = [add("provider-b", "providers"), add("provider-a", "providers")]
    plan["tools"] = [add("tool-c", "tools"), add("tool-a", "tools"), add("tool-b", "tools")]
    plan["hooks"] = [add("hooks-b"), add("hooks-a")]

    async with AmplifierSession(plan):
        pass

    mounted = ["provider-b", "provider-a", "tool-c", "tool-a", "tool-b", "hooks-b", "hooks-a"]
    waves = [f"mount {each}" for each in mounted] + [f"ready {each}" for each in mounted]
    assert order == waves


class _Search:
    """A search tool that keeps its queries."""

    name = "search"
    description = "Searches."

    def __init__(self) -> None:
        self.inputs: list[dict[str, Any]] = []

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Keep the input."""
        self.inputs.append(input)
        return ToolResult(output="found")


def _sessions(
    installed: Installer, shown: dict[str, Any]
) -> list[tuple[AmplifierSession, _Search]]:
    """Make two sessions of the module that a block defines, each with a search tool of its own."""
    ready = {"on_session_ready": shown["on_session_ready"]} if "on_session_ready" in shown else {}
    installed.add("tool-shown", shown["mount"], **ready)
    made: list[tuple[AmplifierSession, _Search]] = []
    for number in (1, 2):
        search = _Search()
        installed.object(f"tool-search-{number}", "tools", search)
        tools = [{"module": "tool-shown"}, {"module": f"tool-search-{number}"}]
        made.append((AmplifierSession(installed.basics(tools=tools)), search))
    return made


_REQUEST = SimpleNamespace(params={"input": {"query": "seeds"}})


@requirement("STHREE-234")
async def test_a_global_of_a_module_is_shared_by_all_sessions(installed: Installer) -> None:
    shown = await run_block("S3:234")
    (one, _), (two, _) = _sessions(installed, shown)

    await one.initialize()
    assert shown["_coordinator"] is one.coordinator
    await two.initialize()
    assert shown["_coordinator"] is two.coordinator
    with pytest.raises(TypeError):
        await shown["handle_request"](_REQUEST)
    for session in (one, two):
        await session.cleanup()


@requirement("STHREE-246")
async def test_what_a_ready_callback_registers_belongs_to_its_session(
    installed: Installer,
) -> None:
    shown = await run_block("S3:246")
    sessions = _sessions(installed, shown)
    for session, _ in sessions:
        await session.initialize()

    for session, search in sessions:
        assert session.coordinator.get_capability("my_module.search_tool") is search
        await shown["handle_request"](session.coordinator, _REQUEST)
        assert search.inputs == [{"query": "seeds"}]
        await session.cleanup()
    await shown["on_session_ready"](without := ModuleCoordinator())
    assert without.get_capability("my_module.search_tool") is None
    await shown["handle_request"](without, _REQUEST)


@requirement("STHREE-266")
async def test_a_ready_callback_subscribes_to_everything_that_was_declared(
    installed: Installer,
) -> None:
    heard = Listener()
    names: dict[str, Any] = {"ALL_EVENTS": ALL_EVENTS, "my_handler": heard}
    shown = await run_block("S3:266", names)
    declared = ["delegate:agent_spawned", "delegate:agent_completed"]

    async def declaring(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        coordinator.register_contributor("observability.events", "later", lambda: declared)

    plan = installed.basics(hooks=[{"module": "hooks-shown"}, {"module": "hooks-later"}])
    installed.add("hooks-shown", shown["mount"], on_session_ready=shown["on_session_ready"])
    installed.add("hooks-later", declaring)

    async with AmplifierSession(plan) as session:
        assert failures(session) == []
        hooks = session.coordinator.hooks
        assert all("my-module" in hooks.list_handlers(event)[event] for event in ALL_EVENTS)
        for event in declared:
            await hooks.emit(event, {})

    assert heard.events == [*declared, "session:end"]
