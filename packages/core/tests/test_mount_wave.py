"""Tests of mounting a plan: who is asked to load, who is notified, and what comes back."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession, MockTool, ModuleCoordinator, ModuleLoader
from amplifier_core.errors import ModuleNotFoundError  # noqa: A004 - our own
from contract.doubles import Listener, raising
from contract.installer import Installer, ScriptedProvider, mounting, write_module

MOUNT = """
    from amplifier_core.testing import MockTool

    async def mount(coordinator, config):
        await coordinator.mount("tools", MockTool("resolved"))
"""


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Any]:
    """A resolver that has `tool-resolved` in a folder, and leaves the rest to what is installed."""
    home = write_module(tmp_path, "tool-resolved", MOUNT)

    class Source:
        def resolve(self) -> Path:
            return home

    class Resolver:
        def resolve(self, module_id: str) -> Source:
            if module_id != "tool-resolved":
                raise ModuleNotFoundError(module_id)
            return Source()

    yield Resolver()
    sys.modules.pop("amplifier_module_tool_resolved", None)


async def test_a_session_makes_a_loader_of_its_own(installed: Installer) -> None:
    async with AmplifierSession(installed.basics()) as session:
        assert isinstance(session.loader, ModuleLoader)
        assert session.loader.coordinator is session.coordinator
        assert session.coordinator.loader is session.loader


@pytest.mark.parametrize("shared", [True, False])
async def test_the_resolver_of_the_session_is_asked_whoever_owns_the_loader(
    installed: Installer, source: Any, shared: bool
) -> None:
    plan = installed.basics(tools=[{"module": "tool-resolved"}])
    session = AmplifierSession(plan, loader=ModuleLoader() if shared else None)
    await session.coordinator.mount("module-source-resolver", source)

    async with session:
        assert list(session.coordinator.get("tools")) == ["resolved"]


async def test_an_app_may_change_what_it_is_given_about_providers(installed: Installer) -> None:
    plan = installed.basics()
    entries: list[dict[str, Any]] = [
        {"module": "provider-test", "config": {"deep": {"n": 1}}},
        {"module": "provider-bad", "config": {"deep": {"n": 2}}},
    ]
    plan["providers"] = entries
    installed.add("provider-bad", raising(RuntimeError("no key")))
    session = AmplifierSession(plan)
    notified: list[tuple[Any, ...]] = []

    async def tell(coordinator: ModuleCoordinator, spec: dict[str, Any], *rest: Any) -> None:
        assert coordinator is session.coordinator
        notified.append((spec["module"], spec["config"]["deep"]["n"], *map(str, rest)))
        spec["config"]["deep"]["n"] = "spoiled"

    session.coordinator.register_capability("provider.before_load", tell)
    session.coordinator.register_capability("provider.load_failure", tell)

    async with session:
        pass

    assert notified == [
        ("provider-test", 1),
        ("provider-bad", 2),
        ("provider-bad", 2, "no key"),
    ]
    assert [each["config"]["deep"]["n"] for each in entries] == [1, 2]


async def test_an_app_that_hangs_before_a_provider_is_loaded_ends_at_the_mount_limit(
    installed: Installer,
) -> None:
    plan = installed.basics()
    plan["session"]["mount_timeout"] = 0.05
    session = AmplifierSession(plan)

    async def hang(coordinator: ModuleCoordinator, spec: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    session.coordinator.register_capability("provider.before_load", hang)

    async with asyncio.timeout(120), session:
        failed = [each for each in session.status.modules if each.state == "failed"]

    assert [(each.module_type, each.error) for each in failed] == [
        ("provider", "TimeoutError: no result after 0.05 s")
    ]


async def test_a_provider_that_mounted_nothing_is_named_in_its_failure(
    installed: Installer,
) -> None:
    async def nothing(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None: ...

    plan = installed.basics()
    plan["providers"] += [
        {"module": "provider-none"},
        {"module": "provider-none", "instance_id": "second"},
    ]
    installed.add("provider-none", nothing)
    session = AmplifierSession(plan)
    errors: list[Any] = []

    async def tell(coordinator: ModuleCoordinator, spec: dict[str, Any], error: Any) -> None:
        errors.append(error)

    session.coordinator.register_capability("provider.load_failure", tell)

    async with session:
        assert list(session.coordinator.get("providers")) == ["test"]
    assert [error.module_id for error in errors] == ["provider-none"] * 2
    assert all("did not install a new provider" in str(error) for error in errors)


async def test_a_module_enqueued_with_a_shared_loader_is_notified_by_one_session_only(
    installed: Installer,
) -> None:
    loader = ModuleLoader()
    notified: list[ModuleCoordinator] = []

    async def ready(coordinator: ModuleCoordinator) -> None:
        notified.append(coordinator)

    loader.enqueue_on_session_ready("tool-inner", ready)
    plan = installed.basics()
    async with AmplifierSession(plan, loader=loader) as first:
        pass
    async with AmplifierSession(plan, loader=loader):
        pass

    assert notified == [first.coordinator]
    assert loader.get_on_session_ready_queue() == []


@pytest.mark.parametrize("kind", ["partial", "object", "function", "builtin"])
async def test_whatever_can_be_called_is_a_cleanup_when_it_is_no_module(
    installed: Installer, kind: str
) -> None:
    ran: list[str] = []

    class Closing:
        def __call__(self) -> None:
            ran.append("object")

    def close(word: str = "function") -> None:
        ran.append(word)

    cleanups: dict[str, Any] = {
        "partial": partial(close, "partial"),
        "object": Closing(),
        "function": close,
        "builtin": partial(ran.append, "builtin"),
    }
    plan = installed.basics(tools=[{"module": "tool-closing"}])
    tool = mounting("tools", MockTool("own"), returns=cleanups[kind])
    installed.add("tool-closing", tool)

    async with AmplifierSession(plan):
        assert ran == []

    assert ran == [kind]


async def test_a_provider_listed_twice_is_named_with_the_remedy(installed: Installer) -> None:
    plan = installed.basics()
    plan["providers"] *= 3

    with pytest.raises(ValueError, match="'provider-test' is listed 3 times.*instance_id"):
        await AmplifierSession(plan).initialize()


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"tools": ["tool-a"]}, "tools[0] must be a dict with a 'module', got str"),
        (
            {"hooks": ({"module": "hooks-a"}, None)},
            "hooks[1] must be a dict with a 'module', got NoneType",
        ),
        ({"tools": {"module": "tool-a"}}, "tools must be a list, got dict"),
        ({"providers": "provider-test"}, "providers must be a list, got str"),
    ],
)
async def test_a_section_of_a_wrong_shape_is_refused_before_anything_is_mounted(
    installed: Installer, sections: dict[str, Any], message: str
) -> None:
    session = AmplifierSession({**installed.basics(), **sections})

    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        await session.initialize()

    assert session.coordinator.get("orchestrator") is None


async def test_a_misspelled_section_is_reported_and_those_of_apps_are_not(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    plan: dict[Any, Any] = {
        **installed.basics(),
        "tool": [{"module": "tool-a"}],
        "sesion": {},
        "agent": {},
        # As near to `tools` as to `hooks`.
        "hools": [],
        "spawn": {},
        "cookies": {},
        7: "seven",
    }

    async with AmplifierSession(plan) as session:
        assert session.coordinator.get("tools") == {}

    reported = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert sorted(reported) == [
        f"Mount plan section '{key}' is ignored: did you mean '{near}'?"
        for key, near in (
            ("agent", "agents"),
            ("hools", "tools"),
            ("sesion", "session"),
            ("tool", "tools"),
        )
    ]


async def test_the_traceback_of_a_failed_module_is_for_those_who_debug(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="amplifier_core._mounting")
    installed.add("tool-bad", raising(RuntimeError("boom")))
    plan = installed.basics(tools=[{"module": "tool-bad"}])

    async with AmplifierSession(plan):
        pass

    records = [each for each in caplog.records if "tool-bad" in each.getMessage()]
    told = [(each.levelname, each.exc_info is not None) for each in records]
    assert told == [("WARNING", False), ("DEBUG", True)]


async def test_a_failed_module_is_announced_with_all_that_is_known_of_it(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    plan = installed.basics(
        tools=[{"module": "tool-absent", "required": False}],
        hooks=[{"module": "hooks-bad"}],
    )
    plan["providers"].append({"module": "provider-bad", "instance_id": "second"})
    installed.add("provider-bad", raising(RuntimeError("boom")))
    installed.add("hooks-bad", raising(RuntimeError("")))
    session = AmplifierSession(plan)
    heard = Listener()
    session.coordinator.hooks.register("module:load_failed", heard)

    async with session:
        states = {each.module_id: each for each in session.status.modules}

    facts = [
        {key: value for key, value in data.items() if key not in ("timestamp", "parent_id")}
        for _, data in heard.calls
    ]
    shared = {"session_id": session.session_id, "required": False}
    assert facts[0] == {
        **shared,
        "module_type": "provider",
        "module_id": "provider-bad",
        "instance_id": "second",
        "error": "boom",
        "reason_code": "unknown",
    }
    assert (facts[1]["module_type"], facts[1]["module_id"]) == ("tool", "tool-absent")
    assert facts[1]["reason_code"] == "missing_source"
    assert "instance_id" not in facts[1]
    assert (facts[2]["module_type"], facts[2]["error"]) == ("hook", "")
    assert (states["provider-bad"].state, states["provider-bad"].error) == (
        "failed",
        "RuntimeError: boom",
    )
    assert states["hooks-bad"].error == "RuntimeError"
    for module_id in ("provider-bad", "tool-absent", "hooks-bad"):
        assert f"'{module_id}'" in caplog.text


async def test_a_required_module_that_fails_ends_the_session_with_its_name(
    installed: Installer,
) -> None:
    plan = installed.basics(tools=[{"module": "tool-bad", "required": True}])
    installed.add("tool-bad", raising(RuntimeError("boom")))
    session = AmplifierSession(plan, session_id="s")

    with pytest.raises(RuntimeError, match="without required tool 'tool-bad': boom") as caught:
        await session.initialize()

    assert getattr(caught.value, "session_id", None) == "s"
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert session.initialized is False
    (bad,) = [each for each in session.status.modules if each.module_id == "tool-bad"]
    assert (bad.state, bad.required) == ("failed", True)


@pytest.mark.parametrize(
    ("kind", "words"), [("orchestrator", "orchestrator"), ("context", "context manager")]
)
async def test_a_session_without_loop_or_context_says_which(
    installed: Installer, kind: str, words: str
) -> None:
    plan = installed.basics()
    installed.add(plan["session"][kind], raising(RuntimeError("boom")))

    with pytest.raises(RuntimeError, match=f"Cannot initialize without {words}: boom"):
        await AmplifierSession(plan).initialize()


async def test_a_module_may_take_two_minutes_to_mount_and_half_a_minute_to_clean_up(
    monkeypatch: pytest.MonkeyPatch, installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    limits: list[float] = []
    loop = asyncio.get_running_loop()
    call_soon = loop.call_soon

    def immediately(delay: float, callback: Any, *args: Any, **kwargs: Any) -> Any:
        limits.append(delay)
        return call_soon(callback, *args, **kwargs)

    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    installed.add("tool-never", never)
    session = AmplifierSession(installed.basics(tools=[{"module": "tool-never"}]))
    session.coordinator.register_cleanup(never)
    monkeypatch.setattr(loop, "call_later", immediately)

    await session.initialize()
    await session.cleanup()

    assert limits[0] == 120.0
    assert limits[-1] == 30.0
    assert "no result after 120 s" in caplog.text
    assert "Error during cleanup" in caplog.text


async def test_a_second_instance_has_its_own_name_and_no_other(installed: Installer) -> None:
    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        await coordinator.mount("providers", ScriptedProvider(name=config["n"]), name="test")

    plan = installed.basics()
    installed.add("provider-test", mount)
    mine = {"module": "provider-test", "instance_id": "mine", "config": {"n": "2"}}

    for entries, expected in (
        ([mine], {"mine": "2"}),
        ([{"module": "provider-test", "config": {"n": "1"}}, mine], {"test": "1", "mine": "2"}),
    ):
        plan["providers"] = entries
        async with AmplifierSession(plan) as session:
            providers = session.coordinator.get("providers")
            assert {name: each.name for name, each in providers.items()} == expected
            assert [each.instance_id for each in session.status.modules][-1] == "mine"


async def test_a_resolver_is_asked_even_for_modules_the_loader_knows(installed: Installer) -> None:
    plan = installed.basics()
    loader = ModuleLoader()
    for module_id in ("loop-test", "context-test", "provider-test"):
        await loader.load(module_id)
    asked: list[str] = []

    class Resolver:
        def resolve(self, module_id: str) -> Any:
            asked.append(module_id)
            raise ModuleNotFoundError(module_id)

    session = AmplifierSession(plan, loader=loader)
    await session.coordinator.mount("module-source-resolver", Resolver())

    async with session:
        assert asked == ["loop-test", "context-test", "provider-test"]


async def test_what_a_mount_returns_and_cannot_be_called_is_no_cleanup(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    plan = installed.basics(tools=[{"module": "tool-odd"}])
    installed.add("tool-odd", mounting("tools", MockTool("own"), returns=42))
    installed.object("tool-new", "tools", MockTool("own"))

    async with AmplifierSession(plan) as session:
        await session.swap("tools", {"module": "tool-new"})
        assert await session.execute("hi") == "answer to hi"

    assert "Error during cleanup" not in caplog.text


async def test_a_source_is_handed_to_the_resolver_as_each_entry_names_it(
    installed: Installer,
) -> None:
    plan = installed.basics(
        session={"orchestrator_source": "loop from here", "context_source": "context from there"},
        tools=[{"module": "tool-own", "source": "tool from elsewhere"}],
    )
    installed.object("tool-own", "tools", MockTool("own"))
    hints: dict[str, Any] = {}

    class Resolver:
        def resolve(self, module_id: str, source_hint: Any = None) -> Any:
            hints[module_id] = source_hint
            raise ModuleNotFoundError(module_id)

    session = AmplifierSession(plan)
    await session.coordinator.mount("module-source-resolver", Resolver())

    async with session:
        assert hints == {
            "loop-test": "loop from here",
            "context-test": "context from there",
            "provider-test": None,
            "tool-own": "tool from elsewhere",
        }


async def test_an_instance_takes_its_name_from_whoever_had_it(installed: Installer) -> None:
    plan = installed.basics()
    own, other = ScriptedProvider(name="own"), ScriptedProvider(name="other")
    installed.object("provider-other", "providers", other, "mine")
    installed.object("provider-test", "providers", own, "test")
    plan["providers"] = [
        {"module": "provider-other"},
        {"module": "provider-test", "instance_id": "mine"},
    ]

    async with AmplifierSession(plan) as session:
        assert session.coordinator.get("providers") == {"mine": own}


async def test_an_instance_that_did_not_come_leaves_the_first_one_its_name(
    installed: Installer,
) -> None:
    first = ScriptedProvider(name="first")

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        if config.get("key"):
            await coordinator.mount("providers", first, name="test")

    plan = installed.basics()
    installed.add("provider-test", mount)
    plan["providers"] = [
        {"module": "provider-test", "config": {"key": "k"}},
        {"module": "provider-test", "instance_id": "second"},
    ]

    async with AmplifierSession(plan) as session:
        assert session.coordinator.get("providers") == {"test": first}
        assert [each.state for each in session.status.modules][-1] == "failed"


async def test_an_instance_that_takes_its_name_by_itself_keeps_it(installed: Installer) -> None:
    own = ScriptedProvider(name="own")
    plan = installed.basics()
    installed.object("provider-test", "providers", own, "second")
    plan["providers"] = [{"module": "provider-test", "instance_id": "second"}]

    async with AmplifierSession(plan) as session:
        assert session.coordinator.get("providers") == {"second": own}
