"""Tests of the loader where the contract is silent: memory, search order, odd resolvers."""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from amplifier_core import AmplifierSession, MockCoordinator, ModuleCoordinator, ModuleLoader
from amplifier_core.errors import (
    ModuleLoadError,
    ModuleNotFoundError,  # noqa: A004 - our own
)
from contract.installer import Folder, Installer, mounting, write_module
from contract.requirements import requirement

pytestmark = pytest.mark.usefixtures("forgotten_imports")

MOUNT = """
    async def mount(coordinator, config):
        coordinator.register_capability("mounted", __file__)
"""


async def mounted_by(loader: ModuleLoader, module_id: str) -> Any:
    """Mount a module of `MOUNT` and give the file it came from."""
    coordinator = ModuleCoordinator()
    await (await loader.load(module_id))(coordinator)
    return coordinator.get_capability("mounted")


@requirement("LOAD-6")
async def test_the_first_search_path_that_has_a_package_is_taken(
    installed: Installer, tmp_path: Path
) -> None:
    (tmp_path / "a" / "tool-placed").mkdir(parents=True)
    write_module(tmp_path / "b" / "tool-placed", "tool-placed", MOUNT)
    write_module(tmp_path / "c" / "amplifier-module-tool-placed", "tool-placed", MOUNT)
    loader = ModuleLoader(search_paths=[tmp_path / "a", str(tmp_path / "b"), tmp_path / "c"])

    file = await mounted_by(loader, "tool-placed")

    assert Path(file).parent.parent == tmp_path / "b" / "tool-placed"
    assert str(tmp_path / "b" / "tool-placed") in sys.path
    loader.cleanup()
    assert str(tmp_path / "b" / "tool-placed") not in sys.path


async def test_a_package_without_a_mount_is_not_found(installed: Installer, tmp_path: Path) -> None:
    write_module(tmp_path / "tool-empty", "tool-empty", "x = 1")

    with pytest.raises(ModuleNotFoundError, match="tool-empty") as caught:
        await ModuleLoader(search_paths=[tmp_path]).load("tool-empty")

    assert str(tmp_path) in caught.value.tried


async def test_a_package_that_was_replaced_since_is_not_taken_from_memory(
    installed: Installer,
) -> None:
    installed.add("tool-known", mounting("tools", "first", "t"))
    coordinator = ModuleCoordinator()
    await (await ModuleLoader().load("tool-known"))(coordinator)
    assert coordinator.get("tools", "t") == "first"

    installed.add("tool-known", mounting("tools", "second", "t"))
    await (await ModuleLoader().load("tool-known"))(coordinator)

    assert coordinator.get("tools", "t") == "second"


async def test_a_module_whose_package_cannot_be_told_is_loaded_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Mount:
        """A mount function made by something that gave it no home."""

        __module__ = "no.such.module"

        async def __call__(self, coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
            coordinator.register_capability("mounted", config)

    class Made(EntryPoint):
        def load(self) -> Any:
            return Mount()

    def installed(**_: Any) -> list[EntryPoint]:
        return [Made("tool-homeless", "no.such.module:mount", "amplifier.modules")]

    monkeypatch.setattr(importlib.metadata, "entry_points", installed)

    for _ in range(2):
        assert await mounted_by(ModuleLoader(), "tool-homeless") == {}


async def test_a_mount_may_be_a_plain_function_when_nobody_checks(installed: Installer) -> None:
    def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> str:
        coordinator.register_capability("mounted", config)
        return "returned"

    installed.add("tool-plain", mount)
    coordinator = ModuleCoordinator()
    bound = await ModuleLoader().load("tool-plain", {"n": 1})

    assert await bound(coordinator) == "returned"
    assert coordinator.get_capability("mounted") == {"n": 1}


class OddResolver:
    """A resolver whose signature cannot be read."""

    def __init__(self, path: Path) -> None:
        self.asked: list[Any] = []
        self.path = path

    @property
    def resolve(self) -> Any:
        outer = self

        class Resolve:
            __signature__ = "not a signature"

            def __call__(self, module_id: str, **hints: Any) -> Folder:
                outer.asked.append((module_id, hints))
                return Folder(outer.path)

        return Resolve()


@requirement("LOAD-11")
async def test_a_resolver_that_hides_its_signature_gets_both_hints(
    installed: Installer, tmp_path: Path
) -> None:
    coordinator = ModuleCoordinator()
    resolver = OddResolver(write_module(tmp_path, "tool-odd", MOUNT))
    await coordinator.mount("module-source-resolver", resolver)
    loader = ModuleLoader()

    await loader.load("tool-odd", source_hint="here", coordinator=coordinator)
    loader.cleanup()

    assert resolver.asked == [("tool-odd", {"source_hint": "here", "profile_hint": "here"})]


async def test_a_source_may_take_its_time(installed: Installer, tmp_path: Path) -> None:
    write_module(tmp_path, "tool-slow", MOUNT)

    class Slow:
        async def resolve(self) -> str:
            await asyncio.sleep(0)
            return str(tmp_path)

    class Resolver:
        def resolve(self, module_id: str) -> Slow:
            return Slow()

    coordinator = ModuleCoordinator()
    await coordinator.mount("module-source-resolver", Resolver())
    loader = ModuleLoader(coordinator)

    file = await mounted_by(loader, "tool-slow")
    again = await mounted_by(loader, "tool-slow")
    loader.cleanup()

    assert Path(file).parent.parent == tmp_path
    assert again == file


@requirement("LOAD-15")
async def test_modules_that_lie_side_by_side_share_one_entry_of_the_import_path(
    installed: Installer, tmp_path: Path
) -> None:
    for module_id in ("tool-left", "tool-right"):
        write_module(tmp_path, module_id, MOUNT)

    class Resolver:
        def resolve(self, module_id: str) -> Folder:
            return Folder(tmp_path)

    coordinator = ModuleCoordinator()
    await coordinator.mount("module-source-resolver", Resolver())
    loader = ModuleLoader(coordinator)

    files = [Path(await mounted_by(loader, each)).parent for each in ("tool-left", "tool-right")]

    assert [each.name for each in files] == [
        "amplifier_module_tool_left",
        "amplifier_module_tool_right",
    ]
    assert sys.path.count(str(tmp_path)) == 1
    loader.cleanup()
    assert str(tmp_path) not in sys.path


async def test_a_module_found_directly_does_not_stand_in_for_a_resolved_one(
    installed: Installer, tmp_path: Path
) -> None:
    """Where a resolver says a module is, there it is loaded from, or an error says why not."""
    installed.add("tool-both", mounting("tools", "installed", "t"))
    loader, coordinator = ModuleLoader(), ModuleCoordinator()
    await loader.load("tool-both")
    home = write_module(tmp_path, "tool-both", MOUNT)

    class Resolver:
        def resolve(self, module_id: str) -> Folder:
            return Folder(home)

    await coordinator.mount("module-source-resolver", Resolver())
    with pytest.raises(ModuleLoadError, match="already loaded"):
        await loader.load("tool-both", coordinator=coordinator)
    loader.cleanup()


async def test_discovery_tells_the_version_of_an_installed_distribution() -> None:
    found = {info.id: info for info in await ModuleLoader(search_paths=[]).discover()}

    loop = found["loop-basic"]
    assert loop.version == importlib.metadata.version("amplifier-module-loops")
    assert (loop.type, loop.mount_point) == ("orchestrator", "orchestrator")


async def test_what_is_installed_counts_more_than_what_lies_on_a_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def installed(**_: Any) -> list[EntryPoint]:
        return [EntryPoint("tool-both", "nowhere_at_all:mount", "amplifier.modules")]

    monkeypatch.setattr(importlib.metadata, "entry_points", installed)
    write_module(tmp_path / "amplifier-module-tool-both", "x", '__amplifier_module_type__ = "hook"')

    (info,) = await ModuleLoader(search_paths=[tmp_path]).discover()

    assert (info.id, info.type) == ("tool-both", "tool")


async def test_a_package_in_memory_is_used_only_while_it_is_the_loaded_one(
    installed: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.add("tool-gone", mounting("tools", "tool", "t"))
    await ModuleLoader().load("tool-gone")
    monkeypatch.delitem(sys.modules, "amplifier_module_tool_gone")

    with pytest.raises(ModuleNotFoundError):
        await ModuleLoader().load("tool-gone")
    empty: Any = ModuleType("amplifier_module_tool_gone")
    monkeypatch.setitem(sys.modules, "amplifier_module_tool_gone", empty)
    with pytest.raises(ModuleNotFoundError):
        await ModuleLoader().load("tool-gone")


class ProjectFolder(Folder):
    """A source whose project file an app has read."""

    def __init__(self, path: Path, package_dir: Any, entry_point: Any) -> None:
        super().__init__(path)
        self.package_dir = package_dir
        self.entry_point = entry_point


class OneSource:
    """A resolver that knows one source."""

    def __init__(self, source: Folder) -> None:
        self.source = source

    def resolve(self, module_id: str, source_hint: Any = None) -> Folder:
        return self.source


async def mounted_from(source: Folder, module_id: str) -> Any:
    """Mount a module from a source and give the file it came from."""
    coordinator = ModuleCoordinator()
    await coordinator.mount("module-source-resolver", OneSource(source))
    loader = ModuleLoader(coordinator)
    try:
        await (await loader.load(module_id))(coordinator)
    finally:
        loader.cleanup()
    return coordinator.get_capability("mounted")


@requirement("SRC-1")
async def test_a_source_may_name_the_package_and_what_mounts_it(
    installed: Installer, tmp_path: Path
) -> None:
    source = MOUNT.replace("def mount", "def mount_it")
    write_module(tmp_path / "lib", "x", "", "amplifier_module_tool_named")
    package = tmp_path / "lib" / "amplifier_module_tool_named"
    (package / "part.py").write_text(textwrap.dedent(source), encoding="utf-8")
    entry_point = "amplifier_module_tool_named.part:mount_it"

    file = await mounted_from(ProjectFolder(tmp_path, package, entry_point), "tool-x")

    assert file == str(package / "part.py")


@requirement("SRC-1")
async def test_what_a_source_says_in_other_types_is_ignored(
    installed: Installer, tmp_path: Path
) -> None:
    write_module(tmp_path, "tool-plain", MOUNT)

    file = await mounted_from(ProjectFolder(tmp_path, "text", object()), "tool-plain")

    assert file == str(tmp_path / "amplifier_module_tool_plain" / "__init__.py")


def test_the_coordinator_of_a_loader_has_the_two_names_that_published_code_reads() -> None:
    coordinator = MockCoordinator()

    loader = ModuleLoader(coordinator)

    assert loader.coordinator is coordinator
    assert vars(loader)["_coordinator"] is coordinator


def test_a_session_can_be_given_another_loader() -> None:
    session = AmplifierSession({"session": {"orchestrator": "loop-basic", "context": "none"}})
    loader = ModuleLoader(session.coordinator)

    session.loader = loader

    assert session.coordinator.loader is loader
