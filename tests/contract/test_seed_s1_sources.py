"""The code blocks of the module source protocol in the module contracts, run as written."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from amplifier_core import ModuleLoader, module_sources
from amplifier_core.errors import ModuleLoadError
from amplifier_core.testing import MockCoordinator
from amplifier_foundation.sources import SourceResolver
from contract.requirements import requirement
from contract.seed_modules import write_project
from contract.seed_runs import compare_protocol
from contract.seeds import run_block

NotFoundError = module_sources.ModuleNotFoundError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the modules that these tests import."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in list(sys.modules):
        if name.startswith("my_") or name == "unloadable":
            del sys.modules[name]


class FileSource:
    """A folder, as the contract names it among its examples."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resolve(self) -> Path:
        return self.path


async def mounted_by(loader: Any, module_id: str, hint: Any = None) -> MockCoordinator:
    """Mount a module on a coordinator of its own."""
    coordinator = MockCoordinator()
    mount = await loader.load(module_id, {"a": 1}, hint)
    await mount(coordinator)
    return coordinator


@requirement("SONE-2007")
async def test_our_source_protocol_is_the_shown_one(tmp_path: Path) -> None:
    shown = (await run_block("S1:2007", {"Protocol": Protocol, "Path": Path}))["ModuleSource"]

    compare_protocol(shown, module_sources.ModuleSource)

    class Own(shown):
        def resolve(self) -> Path:
            return tmp_path

    assert isinstance(Own(), module_sources.ModuleSource)
    assert isinstance(FileSource(tmp_path), module_sources.ModuleSource)


@requirement("SONE-2038")
async def test_a_resolver_of_the_shown_protocol_is_asked_with_the_hint(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "Protocol": Protocol,
        "Any": Any,
        "ModuleSource": module_sources.ModuleSource,
    }
    shown = (await run_block("S1:2038", given))["ModuleSourceResolver"]
    folder = write_project(tmp_path, "tool")
    asked: list[tuple[str, Any]] = []

    class Own(shown):
        def resolve(self, module_id: str, profile_hint: Any = None) -> Any:
            asked.append((module_id, profile_hint))
            return FileSource(folder)

    compare_protocol(shown, module_sources.ModuleSourceResolver)
    assert isinstance(Own(), module_sources.ModuleSourceResolver)
    coordinator = MockCoordinator()
    await coordinator.mount("module-source-resolver", Own())

    found = await mounted_by(ModuleLoader(coordinator), "my-tool", "here")

    assert found.get_mounted("tools")["my-tool"].config == {"a": 1}
    assert asked == [("my-tool", "here")]


# --- the loader ----------------------------------------------------------------------------------


class NoSuchPoint(MockCoordinator):
    """A coordinator that raises for a mount point nobody filled, as the contract expects."""

    def get(self, mount_point: str, name: str | None = None) -> Any:
        if mount_point == "module-source-resolver":
            raise ValueError(f"Unknown mount point: {mount_point}")
        return super().get(mount_point, name)


@requirement("SONE-2077")
async def test_the_shown_loader_works_with_our_coordinator_and_resolver(tmp_path: Path) -> None:
    shown = (await run_block("S1:2077"))["ModuleLoader"]
    folder = write_project(tmp_path, "tool")
    resolver = SourceResolver(tmp_path / "home", base=tmp_path)
    coordinator = MockCoordinator()
    direct: list[str] = []

    class Direct(shown):
        async def _load_direct(self, module_id: str, config: Any) -> str:
            direct.append(module_id)
            return "direct"

    assert await Direct(coordinator).load("my-tool") == "direct"
    assert await Direct(None).load("my-tool") == "direct"
    assert await Direct(NoSuchPoint()).load("my-tool") == "direct"
    await coordinator.mount("module-source-resolver", resolver)
    assert await Direct(coordinator).load("my-tool", None, "./my-tool") is None
    assert direct == ["my-tool"] * 3
    assert resolver.locate("my-tool", "./my-tool").path == folder


@requirement("SONE-2077")
async def test_our_loader_takes_what_the_shown_one_takes(tmp_path: Path) -> None:
    shown = (await run_block("S1:2077"))["ModuleLoader"]
    folder = write_project(tmp_path, "tool")
    coordinator = MockCoordinator()
    await coordinator.mount("module-source-resolver", SourceResolver(tmp_path / "home"))
    loader = ModuleLoader(coordinator)
    ours = list(inspect.signature(ModuleLoader.load).parameters)
    theirs = list(inspect.signature(shown.load).parameters)

    by_position = await loader.load("my-tool", {}, str(folder))
    by_name = await loader.load("my-tool", config={}, profile_source=str(folder))

    assert loader.coordinator is coordinator
    assert ours[:3] == theirs[:3]
    assert callable(by_position)
    assert callable(by_name)
    loader.cleanup()


@requirement("SONE-2077")
@pytest.mark.parametrize("coordinator", [MockCoordinator(), NoSuchPoint(), None])
async def test_our_loader_discovers_directly_when_no_resolver_is_mounted(
    tmp_path: Path, coordinator: MockCoordinator | None
) -> None:
    write_project(tmp_path, "tool")
    loader = ModuleLoader(coordinator, search_paths=[tmp_path])

    found = await mounted_by(loader, "my-tool")
    loader.cleanup()

    assert found.get_mounted("tools")["my-tool"].config == {"a": 1}


@requirement("SONE-2077")
async def test_direct_discovery_can_be_replaced_as_shown() -> None:
    class Direct(ModuleLoader):
        async def _load_direct(self, module_id: str, config: Any = None) -> Any:
            async def mount(coordinator: MockCoordinator) -> None:
                coordinator.register_capability("mounted", (module_id, config))

            return mount

    found = await mounted_by(Direct(MockCoordinator()), "my-tool")

    assert found.get_capability("mounted") == ("my-tool", {"a": 1})


@requirement("SONE-2124")
async def test_a_resolver_is_mounted_without_awaiting_as_shown(tmp_path: Path) -> None:
    folder = write_project(tmp_path, "tool")

    class CustomModuleSourceResolver:
        def resolve(self, module_id: str, profile_hint: Any = None) -> FileSource:
            return FileSource(folder)

    given: dict[str, Any] = {
        "CustomModuleSourceResolver": CustomModuleSourceResolver,
        "coordinator": MockCoordinator(),
        "AmplifierModuleLoader": ModuleLoader,
    }

    names = await run_block("S1:2124", given)
    found = await mounted_by(names["loader"], "my-tool")
    names["loader"].cleanup()

    assert list(found.get("tools")) == ["my-tool"]
    assert given["coordinator"].get("module-source-resolver") is names["resolver"]


# --- errors --------------------------------------------------------------------------------------


@requirement("SONE-2163")
async def test_a_module_that_nobody_knows_is_named_with_what_was_tried() -> None:
    shown = (await run_block("S1:2163"))["ModuleNotFoundError"]
    assert (shown.__name__, shown.__bases__) == (NotFoundError.__name__, (Exception,))
    assert issubclass(NotFoundError, Exception)

    class Refusing:
        def resolve(self, module_id: str, profile_hint: Any = None) -> Any:
            raise NotFoundError(f"No module `{module_id}` in our catalogue.")

    for resolver, words in ((None, "entry points or filesystem"), (Refusing(), "our catalogue")):
        coordinator = MockCoordinator()
        coordinator.mount_points["module-source-resolver"] = resolver
        with pytest.raises(NotFoundError, match=words) as raised:
            await ModuleLoader(coordinator).load("tool-nobody-has")
        assert "tool-nobody-has" in str(raised.value)


@requirement("SONE-2179")
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("this is not Python", id="not valid Python"),
        pytest.param("import no_such_dependency", id="a missing dependency"),
        pytest.param("x = 1", id="no mount"),
        pytest.param("def mount(coordinator, config): ...", id="not the protocol"),
    ],
)
async def test_a_module_that_cannot_be_loaded_is_a_load_error(tmp_path: Path, code: str) -> None:
    shown = (await run_block("S1:2179"))["ModuleLoadError"]
    assert (shown.__name__, shown.__bases__) == (ModuleLoadError.__name__, (Exception,))
    assert module_sources.ModuleLoadError is ModuleLoadError
    (tmp_path / "unloadable").mkdir()
    (tmp_path / "unloadable" / "__init__.py").write_text(code, encoding="utf-8")

    class Here:
        def resolve(self, module_id: str, profile_hint: Any = None) -> FileSource:
            return FileSource(tmp_path)

    coordinator = MockCoordinator()
    await coordinator.mount("module-source-resolver", Here())
    loader = ModuleLoader(coordinator)

    with pytest.raises(ModuleLoadError):
        await loader.load("unloadable")
    loader.cleanup()


# --- a resolver of an app ------------------------------------------------------------------------


@requirement("SONE-2212")
async def test_the_shown_resolver_answers_by_override_hint_and_default(tmp_path: Path) -> None:
    tool, hook, context = (write_project(tmp_path, kind) for kind in ("tool", "hook", "context"))

    def package(name: str) -> FileSource:
        return {"myapp-module-my-context": FileSource(context)}[name]

    given: dict[str, Any] = {
        "Any": Any,
        "ModuleSource": module_sources.ModuleSource,
        "FileSource": FileSource,
    }
    names = await run_block("S1:2212", {**given, "PackageSource": package})

    class Resolver(names["MyCustomResolver"]):
        overrides = {"my-tool": tool}

        def parse_profile_hint(self, hint: str) -> FileSource:
            return FileSource(tmp_path / hint)

    coordinator = MockCoordinator()
    await coordinator.mount("module-source-resolver", Resolver())
    loader = ModuleLoader(coordinator)

    overridden = await mounted_by(loader, "my-tool", "ignored")
    hinted = await mounted_by(loader, "my-hook", hook.name)
    by_default = await mounted_by(loader, "my-context")
    loader.cleanup()

    assert list(overridden.get("tools")) == ["my-tool"]
    assert "tool:pre" in hinted.hooks.list_handlers()
    assert by_default.get("context") is not None
