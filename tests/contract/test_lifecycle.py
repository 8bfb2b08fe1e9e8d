"""Contract of a module's life: mount, its return value, on_session_ready, cleanup."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, ToolResult
from amplifier_core.errors import ModuleNotFoundError  # noqa: A004 - fixed by the source contract
from amplifier_core.events import ALL_EVENTS
from contract.doubles import Listener, Memory, raising
from contract.installer import Installer, Loop, ScriptedProvider, mounting, write_module
from contract.requirements import requirement


class EchoTool:
    """A tool that is callable too, so that it could be mistaken for a cleanup."""

    name = "echo"
    description = "Says it again."

    def __init__(self) -> None:
        self.called = 0

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Give the input back."""
        return ToolResult(output=input)

    def __call__(self) -> None:
        self.called += 1


def _returning(value: Any) -> Any:
    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
        return value

    return mount


@requirement("LIFE-3", "LIFE-4", "LIFE-5", "LIFE-19", "TOOL-5", "COORD-28")
async def test_what_a_mount_returns_is_its_cleanup_if_it_can_be_called(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    order: list[str] = []

    async def asynchronous() -> None:
        order.append("async")

    async def twice(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Callable[[], None]:
        def cleanup() -> None:
            order.append("registered and returned")

        coordinator.register_cleanup(cleanup)
        return cleanup

    returned: dict[str, Any] = {
        "tool-none": _returning(None),
        "tool-dict": _returning({"not": "callable"}),
        "tool-plain": _returning(lambda: order.append("plain")),
        "tool-async": _returning(asynchronous),
        "tool-coroutine": _returning(lambda: asynchronous()),
        "tool-broken": _returning(raising(RuntimeError("boom"))),
        "tool-twice": twice,
    }
    for module_id, mount in returned.items():
        installed.add(module_id, mount)
    plan = installed.basics(tools=[{"module": module_id} for module_id in returned])

    async with AmplifierSession(plan):
        assert order == []

    assert order == ["registered and returned", "async", "async", "plain"]
    assert caplog.text.count("Error during cleanup") == 1


@requirement("LIFE-6")
async def test_a_returned_module_is_mounted_and_never_called(installed: Installer) -> None:
    tool, mounted, provider = EchoTool(), EchoTool(), ScriptedProvider(name="auto")
    plan = installed.basics(tools=[{"module": "tool-returned"}, {"module": "tool-mounted"}])
    plan["providers"].append({"module": "provider-auto"})
    installed.add("tool-returned", _returning(tool))
    installed.add("tool-mounted", mounting("tools", mounted, "mounted", returns=mounted))
    installed.add("provider-auto", _returning(provider))
    installed.add("loop-test", _returning(installed.loop))
    installed.add("context-test", _returning(installed.memory))

    async with AmplifierSession(plan) as session:
        get = session.coordinator.get
        assert get("tools") == {"echo": tool, "mounted": mounted}
        assert get("providers", "auto") is provider
        assert get("orchestrator") is installed.loop
        assert get("context") is installed.memory
        assert await session.execute("hi") == "answer to hi"

    assert (tool.called, mounted.called) == (0, 0)


class OneFolder:
    """A resolver that gives one folder to every module whose plan names a source."""

    def __init__(self, path: Path) -> None:
        self._source = SimpleNamespace(resolve=lambda: path)

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
        """Give the folder, or know nothing."""
        if source_hint is None:
            raise ModuleNotFoundError(module_id)
        return self._source


def _ready_everywhere(installed: Installer, order: list[str]) -> dict[str, Any]:
    """Install one module of each kind that notes when it mounts and when it is ready."""

    def noting(module_id: str, point: str, thing: Any) -> None:
        async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
            order.append(f"mount {module_id}")
            if point != "hooks":
                await coordinator.mount(point, thing, name=module_id)

        async def on_session_ready(coordinator: ModuleCoordinator) -> str:
            assert coordinator.get("orchestrator") is not None
            assert coordinator.get("tools", "tool-one") is not None
            order.append(f"ready {module_id}")
            await asyncio.sleep(0)
            order.append(f"done {module_id}")
            return "ignored"

        installed.add(module_id, mount, on_session_ready=on_session_ready)

    for module_id, point, thing in (
        ("loop-one", "orchestrator", Loop()),
        ("context-one", "context", Memory()),
        ("provider-one", "providers", ScriptedProvider()),
        ("tool-one", "tools", EchoTool()),
        ("tool-two", "tools", EchoTool()),
        ("hooks-one", "hooks", None),
    ):
        noting(module_id, point, thing)
    return {
        "hooks": [{"module": "hooks-one"}],
        "tools": [{"module": "tool-two"}, {"module": "tool-one"}],
        "providers": [{"module": "provider-one"}],
        "session": {"context": "context-one", "orchestrator": "loop-one"},
    }


@requirement("LIFE-8", "LIFE-9", "LIFE-10", "LIFE-14")
async def test_every_module_is_told_once_when_all_are_there(installed: Installer) -> None:
    order: list[str] = []
    plan = _ready_everywhere(installed, order)
    mounted = ["loop-one", "context-one", "provider-one", "tool-two", "tool-one", "hooks-one"]
    wave = [f"mount {module_id}" for module_id in mounted]
    for module_id in mounted:
        wave += [f"ready {module_id}", f"done {module_id}"]
    parent = AmplifierSession(plan)

    await parent.initialize()
    await parent.initialize()
    assert order == wave

    order.clear()
    child = AmplifierSession(plan, parent_id=parent.session_id)

    def note(event: str, data: dict[str, Any]) -> None:
        order.append(event)

    child.coordinator.hooks.register("session:fork", note)
    await child.initialize()
    assert order == [*wave, "session:fork"]


@requirement("LIFE-9")
async def test_a_module_that_another_one_loaded_is_ready_after_those_of_the_plan(
    installed: Installer,
) -> None:
    order: list[str] = []

    def noting(name: str) -> Any:
        async def on_session_ready(coordinator: ModuleCoordinator) -> None:
            order.append(name)

        return on_session_ready

    async def loading(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        assert coordinator.loader is not None
        inner = await coordinator.loader.load("tool-inner", {}, coordinator=coordinator)
        await coordinator.loader.initialize(inner, coordinator)
        coordinator.loader.enqueue_on_session_ready(*getattr(inner, "__on_session_ready__"))  # noqa: B009 - an attribute of a function

    installed.add("tool-inner", mounting("tools", EchoTool()), on_session_ready=noting("inner"))
    installed.add("tool-outer", loading, on_session_ready=noting("outer"))
    installed.add("hooks-last", _returning(None), on_session_ready=noting("last"))
    plan = installed.basics(tools=[{"module": "tool-outer"}], hooks=[{"module": "hooks-last"}])

    async with AmplifierSession(plan) as session:
        assert "echo" in session.coordinator.get("tools")
    assert order == ["outer", "last", "inner"]


@requirement("LIFE-11")
async def test_a_plain_ready_function_is_skipped_with_a_warning(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[str] = []

    def on_session_ready(coordinator: ModuleCoordinator) -> None:
        called.append("ready")

    tool = mounting("tools", EchoTool())
    installed.add("tool-sync", tool, on_session_ready=on_session_ready)
    session = AmplifierSession(installed.basics(tools=[{"module": "tool-sync"}]))

    await session.initialize()

    assert called == []
    assert "echo" in session.coordinator.get("tools")
    (record,) = [record for record in caplog.records if "must be async" in record.getMessage()]
    assert record.levelname == "WARNING"


@requirement("LIFE-12", "LIFE-13", "LIFE-15", "EVENT-7")
async def test_a_ready_function_that_fails_is_logged_and_announced(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    ready = Listener()

    async def noting(coordinator: ModuleCoordinator) -> None:
        await ready("ready", None)

    installed.add(
        "tool-bad", mounting("tools", EchoTool()), on_session_ready=raising(RuntimeError("boom"))
    )
    installed.add("tool-good", mounting("tools", EchoTool(), "good"), on_session_ready=noting)
    installed.add("tool-unmounted", raising(RuntimeError("no")), on_session_ready=noting)
    modules = ("tool-bad", "tool-unmounted", "tool-good")
    plan = installed.basics(tools=[{"module": module_id} for module_id in modules])
    session = AmplifierSession(plan)
    heard = Listener()
    session.coordinator.hooks.register("module:on_session_ready_failed", heard)

    await session.initialize()

    assert session.initialized
    assert len(ready.calls) == 1
    assert len(heard.calls) == 1
    assert heard.data["module_id"] == "tool-bad"
    assert heard.data["error"] == "boom"
    warned = [
        r for r in caplog.records if r.levelname == "WARNING" and "tool-bad" in r.getMessage()
    ]
    assert warned[0].exc_info is not None


@requirement("LIFE-20")
@pytest.mark.parametrize("transport", ["wasm", "grpc", "rust"])
async def test_a_module_of_another_transport_is_not_called_when_the_others_are_ready(
    installed: Installer, tmp_path: Path, transport: str
) -> None:
    ready = Listener()

    async def noting(coordinator: ModuleCoordinator) -> None:
        await ready("ready", None)

    installed.add("tool-python", mounting("tools", EchoTool()), on_session_ready=noting)
    write_module(
        tmp_path,
        f"tool-of-{transport}",
        """
        async def mount(coordinator, config): ...
        async def on_session_ready(coordinator):
            coordinator.register_capability("called", True)
        """,
    )
    manifest = f'[module]\ntransport = "{transport}"\n'
    (tmp_path / "amplifier.toml").write_text(manifest, encoding="utf-8")
    tools = [{"module": f"tool-of-{transport}", "source": str(tmp_path)}, {"module": "tool-python"}]
    session = AmplifierSession(installed.basics(tools=tools))
    _ = session.coordinator.mount("module-source-resolver", OneFolder(tmp_path))

    async with session:
        states = {each.module_id: each for each in session.status.modules}
        called = session.coordinator.get_capability("called")

    assert called is None
    assert len(ready.calls) == 1
    assert states["tool-python"].state == "mounted"
    assert states[f"tool-of-{transport}"].state == "failed"
    assert f"transport '{transport}'" in str(states[f"tool-of-{transport}"].error)


@requirement("LIFE-16", "LIFE-17", "CHAN-10", "CHAN-14")
async def test_when_ready_a_module_can_subscribe_to_what_all_others_declared(
    installed: Installer,
) -> None:
    heard, cleaned = Listener(), Listener()

    async def declare(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        declared = ["late:started", "late:done"]
        coordinator.register_contributor("observability.events", "late", lambda: declared)

    async def on_session_ready(coordinator: ModuleCoordinator) -> None:
        known = set(ALL_EVENTS)
        for declared in await coordinator.collect_contributions("observability.events"):
            known.update(declared)
        for event in known:
            coordinator.hooks.register(event, heard, name="logging")
        coordinator.register_cleanup(lambda: cleaned("cleaned", None))

    installed.add("hooks-early", _returning(None), on_session_ready=on_session_ready)
    installed.add("hooks-late", declare)
    plan = installed.basics(hooks=[{"module": "hooks-early"}, {"module": "hooks-late"}])

    async with AmplifierSession(plan) as session:
        await session.coordinator.hooks.emit("late:started", {})
        await session.execute("hi")

    assert heard.events == ["late:started", "session:start", "session:end"]
    assert len(cleaned.calls) == 1


@requirement("LIFE-18")
async def test_a_ready_function_may_take_its_time(
    installed: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time
    ready: list[str] = []

    async def on_session_ready(coordinator: ModuleCoordinator) -> None:
        # An hour passes: a deadline, if there were one, would be over.
        monkeypatch.setattr(loop, "time", lambda: now() + 3600)
        for _ in range(5):
            await asyncio.sleep(0)
        ready.append("ready")

    installed.add("tool-slow", mounting("tools", EchoTool()), on_session_ready=on_session_ready)
    session = AmplifierSession(installed.basics(tools=[{"module": "tool-slow"}]))

    await session.initialize()

    assert ready == ["ready"]
