"""The blocks of the document Module Source Protocol, run as written."""

from __future__ import annotations

import ast
import gc
import inspect
import warnings
from pathlib import Path
from typing import Any, Protocol

import pytest

from amplifier_core import ModuleCoordinator, ModuleLoader
from amplifier_core.module_sources import (
    ModuleNotFoundError,  # noqa: A004 - the name is fixed by the source contract
    ModuleSource,
    ModuleSourceResolver,
)
from contract.installer import Installer, mounting, write_module
from contract.requirements import requirement
from contract.seeds import BLOCKS, run_block
from contract.seeds.signatures import assert_offers, shown_function

_MOUNT = """
async def mount(coordinator, config):
    coordinator.register_capability("mounted", (__file__, dict(config)))
"""


class _Folder:
    """A source that is a folder, or raises what it was given."""

    def __init__(self, path: Path | Exception) -> None:
        self.path = path

    def resolve(self) -> Path:
        """Give the folder."""
        if isinstance(self.path, Exception):
            raise self.path
        return self.path


class _Resolver:
    """A resolver written to the document; keeps how it was asked."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.asked: list[tuple[str, Any]] = []

    def resolve(self, module_id: str, profile_hint: Any = None) -> ModuleSource:
        """Keep the question and answer it."""
        self.asked.append((module_id, profile_hint))
        return self.source


def _methods(block: str) -> dict[str, Any]:
    (shown,) = ast.parse(BLOCKS[block].text).body
    assert isinstance(shown, ast.ClassDef)
    functions = [
        node for node in shown.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    return {function.name: shown_function(function) for function in functions}


async def _loader_with(resolver: Any) -> ModuleLoader:
    coordinator = ModuleCoordinator()
    await coordinator.mount("module-source-resolver", resolver)
    return ModuleLoader(coordinator)


async def _mounted(loader: ModuleLoader, *arguments: Any, **named: Any) -> Any:
    """Load a module and mount it, and give what it says about itself."""
    coordinator = ModuleCoordinator()
    try:
        mount = await loader.load(*arguments, **named)
        await mount(coordinator)
    finally:
        loader.cleanup()
    return coordinator.get_capability("mounted")


@requirement("SFOUR-32")
async def test_a_source_as_shown_leads_to_the_directory_of_a_module(
    installed: Installer, tmp_path: Path
) -> None:
    folder = write_module(tmp_path, "tool-sourced", _MOUNT)
    shown = await run_block("S4:32", {"Protocol": Protocol, "Path": Path})

    class Source(shown["ModuleSource"]):
        def resolve(self) -> Path:
            return folder

    source: Any = Source()
    assert isinstance(source, ModuleSource)
    assert_offers(_methods("S4:32")["resolve"], source.resolve)
    assert _methods("S4:32")["resolve"].returns is Path
    file, _ = await _mounted(await _loader_with(_Resolver(source)), "tool-sourced")

    assert Path(file).parent.parent == folder


@requirement("SFOUR-32")
@pytest.mark.parametrize("error", [ModuleNotFoundError("gone"), OSError("unreadable")])
async def test_what_a_source_raises_reaches_the_caller(
    installed: Installer, error: Exception
) -> None:
    loader = await _loader_with(_Resolver(_Folder(error)))

    with pytest.raises(type(error)) as raised:
        await loader.load("tool-sourced")

    assert raised.value is error


@requirement("SFOUR-61")
async def test_a_resolver_as_shown_is_asked_with_id_and_hint(
    installed: Installer, tmp_path: Path
) -> None:
    source = _Folder(write_module(tmp_path, "tool-sourced", _MOUNT))
    names = {"Protocol": Protocol, "Any": Any, "ModuleSource": ModuleSource}
    shown = await run_block("S4:61", names)
    asked: list[Any] = []

    class Resolver(shown["ModuleSourceResolver"]):
        def resolve(self, module_id: str, profile_hint: Any = None) -> ModuleSource:
            asked.append((module_id, profile_hint))
            return source

    resolver: Any = Resolver()
    assert isinstance(resolver, ModuleSourceResolver)
    assert_offers(_methods("S4:61")["resolve"], resolver.resolve)
    loader = await _loader_with(resolver)
    assert await _mounted(loader, "tool-sourced", {}, "by position")
    assert await _mounted(loader, "tool-sourced", profile_source="by keyword")

    assert asked == [("tool-sourced", "by position"), ("tool-sourced", "by keyword")]


@requirement("SFOUR-97")
@pytest.mark.parametrize("base", ["shown", "ours"])
async def test_a_resolver_is_asked_by_position_whatever_it_calls_its_hint(
    installed: Installer, tmp_path: Path, base: str
) -> None:
    source = _Folder(write_module(tmp_path, "tool-sourced", _MOUNT))
    asked: list[Any] = []

    class OtherName:
        def resolve(self, module_id: str, hint: Any) -> ModuleSource:
            asked.append((module_id, hint))
            return source

    class PositionOnly:
        def resolve(self, module_id: str, hint: Any = None, /) -> ModuleSource:
            asked.append((module_id, hint))
            return source

    for resolver in (OtherName(), PositionOnly()):
        loader = await _loader_with(resolver)
        if base == "shown":
            shown = (await run_block("S4:97"))["ModuleLoader"]
            await shown(loader.coordinator).load("tool-sourced", {}, "the hint")
        else:
            assert await _mounted(loader, "tool-sourced", {}, "the hint")

    assert asked == [("tool-sourced", "the hint")] * 2


@requirement("SFOUR-97")
async def test_the_loader_takes_what_the_shown_one_takes(installed: Installer) -> None:
    shown = _methods("S4:97")
    installed.add("tool-shown", mounting("tools", object(), "shown"))
    coordinator = ModuleCoordinator()

    assert list(shown["__init__"].parameters) == ["coordinator"]
    assert ModuleLoader(coordinator).coordinator is coordinator
    assert list(shown["load"].parameters) == ["module_id", "config", "profile_source"]
    assert shown["load"].is_async
    load = ModuleLoader(coordinator).load
    for loading in (
        load("tool-shown"),
        load("tool-shown", {"a": 1}, "hint"),
        load("tool-shown", config={"a": 1}, profile_source="hint"),
        load(module_id="tool-shown", config=None, profile_source=None),
    ):
        assert inspect.iscoroutine(loading)
        assert callable(await loading)


@requirement("SFOUR-97", "SFOUR-209")
async def test_the_shown_loader_finds_modules_with_the_direct_discovery_of_ours(
    installed: Installer,
) -> None:
    shown = (await run_block("S4:97"))["ModuleLoader"]

    def initialize(self: Any, coordinator: ModuleCoordinator) -> None:
        ModuleLoader.__init__(self, coordinator)
        shown.__init__(self, coordinator)

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        coordinator.register_capability("mounted", config)

    installed.add("tool-shown", mount)
    # The shown loader assigns its coordinator, which ours has as a property.
    members = {"__init__": initialize, "coordinator": None}
    loader: Any = type("Loader", (shown, ModuleLoader), members)(ModuleCoordinator())

    assert await _mounted(loader, "tool-shown", {"a": 1}) == {"a": 1}


@requirement("SFOUR-97")
async def test_a_coordinator_that_does_not_know_the_mount_point_has_no_resolver(
    installed: Installer,
) -> None:
    coordinator = ModuleCoordinator()
    del coordinator.mount_points["module-source-resolver"]
    with pytest.raises(ValueError, match="module-source-resolver"):
        coordinator.get("module-source-resolver")
    installed.add("tool-shown", mounting("tools", object(), "shown"))

    for _ in range(2):
        assert callable(await ModuleLoader(coordinator).load("tool-shown"))


@requirement("SFOUR-142")
async def test_a_resolver_is_mounted_without_awaiting_and_used_by_the_loader(
    installed: Installer, tmp_path: Path
) -> None:
    source = _Folder(write_module(tmp_path, "tool-sourced", _MOUNT))
    coordinator = ModuleCoordinator()
    names: dict[str, Any] = {"coordinator": coordinator, "AmplifierModuleLoader": ModuleLoader}
    names["CustomModuleSourceResolver"] = lambda: _Resolver(source)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shown = await run_block("S4:142", names)
        gc.collect()

    assert [str(each.message) for each in caught] == []
    assert coordinator.get("module-source-resolver") is shown["resolver"]
    assert await _mounted(shown["loader"], "tool-sourced")
    assert shown["resolver"].asked == [("tool-sourced", None)]


@requirement("SFOUR-209")
async def test_direct_discovery_asks_entry_points_first_and_then_folders(
    installed: Installer, tmp_path: Path
) -> None:
    asked: list[str] = []

    class Loader(ModuleLoader):
        def _load_entry_point(self, module_id: str, *rest: Any) -> Any:
            asked.append("entry point")
            return super()._load_entry_point(module_id, *rest)

        def _load_filesystem(self, module_id: str, *rest: Any) -> Any:
            asked.append("filesystem")
            return super()._load_filesystem(module_id, *rest)

    write_module(tmp_path / "amplifier-module-tool-found", "tool-found", _MOUNT)

    assert await _mounted(Loader(search_paths=[tmp_path]), "tool-found")
    assert asked == ["entry point", "filesystem"]


@requirement("SFOUR-209")
async def test_a_loader_that_overrides_direct_discovery_is_heard(installed: Installer) -> None:
    asked: list[Any] = []

    async def mount(coordinator: ModuleCoordinator) -> None:
        coordinator.register_capability("mounted", "by the override")

    class Loader(ModuleLoader):
        async def _load_direct(self, module_id: str, config: Any = None) -> Any:
            asked.append((module_id, config))
            return mount

    assert await _mounted(Loader(), "tool-anything", {"a": 1}) == "by the override"
    assert asked == [("tool-anything", {"a": 1})]


@requirement("SFOUR-218")
async def test_a_resolver_of_an_application_chooses_where_modules_come_from(
    installed: Installer, tmp_path: Path
) -> None:
    overridden = write_module(tmp_path / "overridden", "tool-one", _MOUNT)
    hinted = write_module(tmp_path / "hinted", "tool-two", _MOUNT)

    def package_source(name: str) -> _Folder:
        return _Folder(ModuleNotFoundError(f"no package {name}"))

    names = {"Any": Any, "ModuleSource": ModuleSource, "FileSource": _Folder}
    shown = await run_block("S4:218", {"PackageSource": package_source, **names})

    class Resolver(shown["MyCustomResolver"]):
        overrides = {"tool-one": overridden}

        def parse_profile_hint(self, hint: str) -> _Folder:
            return _Folder(tmp_path / hint)

    loader = await _loader_with(Resolver())
    one, _ = await _mounted(loader, "tool-one", {}, "ignored")
    two, _ = await _mounted(loader, "tool-two", {}, "hinted")

    assert Path(one).is_relative_to(overridden)
    assert Path(two).is_relative_to(hinted)
    with pytest.raises(ModuleNotFoundError, match="no package myapp-module-tool-three"):
        await loader.load("tool-three")
