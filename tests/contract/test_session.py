"""Contract of the session: how it is built and initialised, and the plan it reads."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, ModuleLoader
from contract.doubles import Approvals, Display, Listener, Memory, raising
from contract.installer import Installer, Loop, ScriptedProvider
from contract.requirements import requirement

MINIMAL: dict[str, Any] = {"session": {"orchestrator": "loop-test", "context": "context-test"}}


@requirement("SESS-2")
@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "Configuration is required"),
        (None, "Configuration is required"),
        ({"providers": []}, "Configuration must specify session.orchestrator"),
        ({"session": {"context": "c"}}, "Configuration must specify session.orchestrator"),
        ({"session": {"orchestrator": "", "context": "c"}}, "must specify session.orchestrator"),
        ({"session": {"orchestrator": "o"}}, "Configuration must specify session.context"),
    ],
)
def test_a_config_that_lacks_something_is_refused(config: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        AmplifierSession(config)
    with pytest.raises(ValueError, match="onfiguration"):
        AmplifierSession(["not", "a", "dict"])  # pyright: ignore[reportArgumentType] - on purpose


@requirement("SESS-1", "SESS-5", "SESS-7", "SESS-9")
def test_a_session_takes_everything_by_keyword() -> None:
    approvals, display, loader = Approvals(), Display(), ModuleLoader()

    session = AmplifierSession(
        config=MINIMAL,
        loader=loader,
        session_id="child",
        parent_id="parent",
        approval_system=approvals,
        display_system=display,
        is_resumed=True,
    )

    assert (session.session_id, session.parent_id) == ("child", "parent")
    assert session.loader is loader
    assert session.is_resumed is True
    assert session.initialized is False
    assert session.status.session_id == "child"
    assert session.status.status == "running"
    assert isinstance(session.coordinator, ModuleCoordinator)
    assert session.coordinator.session is session
    assert session.coordinator.approval_system is approvals
    assert session.coordinator.display_system is display


@requirement("SESS-3", "SESS-11")
def test_a_session_gets_a_fresh_id_even_outside_an_event_loop() -> None:
    first, second = AmplifierSession(MINIMAL), AmplifierSession(MINIMAL)

    assert UUID(first.session_id).version == 4
    assert first.session_id != second.session_id
    assert first.parent_id is None


@requirement("SESS-4", "SESS-8")
def test_config_is_shared_and_a_session_can_be_patched() -> None:
    config: dict[str, Any] = {"session": dict(MINIMAL["session"])}
    session = AmplifierSession(config)

    config["session"]["injection_size_limit"] = 7
    patched: Any = session
    patched.note = "mine"
    patched.initialize = "replaced"

    assert session.config is config
    assert session.coordinator.config is config
    assert session.coordinator.injection_size_limit == 7
    assert (patched.note, patched.initialize) == ("mine", "replaced")


@requirement("SESS-10")
def test_configs_merge_by_dict_and_leave_their_sources_alone() -> None:
    session = AmplifierSession(MINIMAL)
    base = {"session": {"a": 1, "b": 2}, "tools": [1, 2], "kept": True}
    overlay: dict[str, Any] = {
        "session": {"b": 3, "c": {"d": 4}},
        "tools": [3],
        "agents": {"x": {}},
    }

    merged = session._merge_configs(base, overlay)

    assert merged == {
        "session": {"a": 1, "b": 3, "c": {"d": 4}},
        "tools": [3],
        "kept": True,
        "agents": {"x": {}},
    }
    assert base == {"session": {"a": 1, "b": 2}, "tools": [1, 2], "kept": True}
    assert overlay["tools"] == [3]


@requirement("SESS-6")
async def test_every_event_carries_the_identity_of_its_session() -> None:
    for parent in (None, "parent"):
        session = AmplifierSession(MINIMAL, session_id="s", parent_id=parent)
        heard = Listener()
        session.coordinator.hooks.register("a:b", heard)

        await session.coordinator.hooks.emit("a:b", {})

        assert (heard.data["session_id"], heard.data["parent_id"]) == ("s", parent)


@requirement("SESS-12", "SESS-14", "SESS-15", "SESS-19", "SESS-51", "LIFE-1", "LIFE-2", "COORD-57")
async def test_modules_are_mounted_once_in_the_order_of_their_kinds(installed: Installer) -> None:
    order: list[str] = []
    coordinators: list[ModuleCoordinator] = []

    def noting(module_id: str, point: str, thing: Any) -> None:
        async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
            order.append(module_id)
            coordinators.append(coordinator)
            if point == "hooks":
                assert coordinator.get("tools", "one") is not None
                coordinator.hooks.register("a:b", thing, name=module_id)
            else:
                await coordinator.mount(point, thing, name=module_id.partition("-")[2])

        installed.add(module_id, mount)

    for name, point, thing in (
        ("hooks-one", "hooks", Listener()),
        ("tool-two", "tools", Listener()),
        ("tool-one", "tools", Listener()),
        ("provider-one", "providers", ScriptedProvider()),
        ("context-one", "context", Memory()),
        ("loop-one", "orchestrator", Loop()),
    ):
        noting(name, point, thing)
    plan: dict[str, Any] = {
        "hooks": [{"module": "hooks-one"}],
        "tools": [{"module": "tool-two"}, {"config": {"no": "module"}}, {"module": "tool-one"}],
        "providers": [{"module": "provider-one"}, {}],
        "session": {"context": "context-one", "orchestrator": "loop-one"},
    }
    session = AmplifierSession(plan)

    initialize: Any = session.initialize
    assert await initialize() is None
    assert await initialize() is None

    assert session.initialized
    assert order == [
        "loop-one",
        "context-one",
        "provider-one",
        "tool-two",
        "tool-one",
        "hooks-one",
    ]
    assert all(coordinator is session.coordinator for coordinator in coordinators)
    assert isinstance(session.coordinator.loader, ModuleLoader)
    assert session.loader is session.coordinator.loader


class _CountingLoader(ModuleLoader):
    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    async def load(self, module_id: str, *args: Any, **kwargs: Any) -> Any:
        self.loaded.append(module_id)
        return await super().load(module_id, *args, **kwargs)


@requirement("SESS-9", "SESS-53")
async def test_a_given_loader_is_used_and_may_be_shared(installed: Installer) -> None:
    loader = _CountingLoader()
    plan = installed.basics()
    parent = AmplifierSession(plan, loader=loader)
    child = AmplifierSession(plan, loader=loader, parent_id=parent.session_id)

    await parent.initialize()
    await child.initialize()

    assert loader.loaded == ["loop-test", "context-test", "provider-test"] * 2
    assert parent.coordinator.loader is child.coordinator.loader is loader


@requirement("SESS-13", "SESS-16")
@pytest.mark.parametrize(
    ("module_id", "point", "text"),
    [
        ("loop-test", "orchestrator", "Cannot initialize without orchestrator: boom"),
        ("context-test", "context", "Cannot initialize without context manager: boom"),
    ],
)
async def test_without_loop_or_context_initialisation_fails_and_can_be_tried_again(
    installed: Installer, module_id: str, point: str, text: str
) -> None:
    session = AmplifierSession(installed.basics())
    errors = [RuntimeError("boom")]

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        if errors:
            raise errors[0]
        await coordinator.mount(point, Loop() if point == "orchestrator" else Memory())

    installed.add(module_id, mount)
    with pytest.raises(RuntimeError, match=text) as caught:
        await session.initialize()
    assert caught.value.__cause__ is errors.pop()
    assert session.initialized is False

    await session.initialize()
    assert session.initialized is True


class _Unspeakable(Exception):
    def __str__(self) -> str:
        return b"\xff".decode("utf-8")


@requirement("SESS-26")
async def test_an_error_that_cannot_be_put_into_words_is_shown_by_its_repr(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    error = _Unspeakable()
    plan = installed.basics(hooks=[{"module": "hooks-broken"}])
    installed.add("hooks-broken", raising(error))
    session = AmplifierSession(plan)
    heard = Listener()
    session.coordinator.hooks.register("module:load_failed", heard)

    await session.initialize()

    assert heard.data["error"] == repr(error)
    assert repr(error) in caplog.text
    installed.add("loop-test", raising(error))
    with pytest.raises(RuntimeError, match="Cannot initialize without orchestrator: _Unspeak"):
        await AmplifierSession(plan).initialize()


@requirement("SESS-17", "SESS-18", "LOAD-20")
async def test_a_provider_tool_or_hook_that_fails_is_announced_and_left_out(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    plan = installed.basics(
        tools=[{"module": "tool-broken"}, {"module": "tool-absent"}],
        hooks=[{"module": "hooks-broken"}],
    )
    plan["providers"].append({"module": "provider-broken", "instance_id": "spare"})
    installed.add("provider-broken", raising(RuntimeError("no key")))
    installed.add("tool-broken", raising(RuntimeError("boom")))
    installed.add("hooks-broken", raising(RuntimeError("boom")))
    session = AmplifierSession(plan)
    heard = Listener()
    session.coordinator.hooks.register("module:load_failed", heard)

    await session.initialize()

    assert session.initialized
    told = [
        tuple(data.get(key) for key in ("module_type", "module_id", "reason_code", "instance_id"))
        for _, data in heard.calls
    ]
    assert told == [
        ("provider", "provider-broken", "unknown", "spare"),
        ("tool", "tool-broken", "unknown", None),
        ("tool", "tool-absent", "missing_source", None),
        ("hook", "hooks-broken", "unknown", None),
    ]
    assert "no key" in heard.calls[0][1]["error"]
    for kind, module_id in (("provider", "provider-broken"), ("tool", "tool-absent")):
        assert f"Failed to load {kind} '{module_id}'" in caplog.text
