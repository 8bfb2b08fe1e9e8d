"""Tests of what a loader remembers, what its errors carry, and modules from entry points."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from amplifier_core import AmplifierSession, MockTool, ModuleCoordinator, ModuleLoader
from amplifier_core.errors import (
    ModuleLoadError,
    ModuleNotFoundError,  # noqa: A004 - our own
    ModuleValidationError,
)
from contract.installer import Installer, mounting, write_module

Points = Callable[..., None]

pytestmark = pytest.mark.usefixtures("forgotten_imports")

MOUNT = """
    async def mount(coordinator, config):
        coordinator.register_capability("mounted", __file__)
"""


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Points:
    """Let entry points of these ids and values be installed, and no others."""

    def install(**values: str) -> None:
        points = [
            EntryPoint(name.replace("_", "-"), value, "amplifier.modules")
            for name, value in values.items()
        ]

        def entry_points(*, group: str) -> list[EntryPoint]:
            return points if group == "amplifier.modules" else []

        monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)

    return install


def package(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: Any) -> None:
    """Have a package of this name loaded."""
    module = ModuleType(name)
    module.__dict__.update(attributes)
    monkeypatch.setitem(sys.modules, name, module)


def mount_of(name: str, tool: Any) -> Any:
    """Make a mount function that lives in the package `name`."""
    mount = mounting("tools", tool, "t")
    mount.__module__ = name
    return mount


async def mounted_tool(loader: ModuleLoader, module_id: str) -> Any:
    coordinator = ModuleCoordinator()
    await (await loader.load(module_id))(coordinator)
    return coordinator.get("tools", "t")


async def test_a_module_from_an_entry_point_is_notified_when_all_are_mounted(
    monkeypatch: pytest.MonkeyPatch, installed: Installer, declare: Points
) -> None:
    notified: list[ModuleCoordinator] = []

    async def on_session_ready(coordinator: ModuleCoordinator) -> None:
        notified.append(coordinator)

    plan = installed.basics(tools=[{"module": "tool-pointed"}])
    mount = mount_of("pointed_at", MockTool("t"))
    package(monkeypatch, "pointed_at", mount=mount, on_session_ready=on_session_ready)
    declare(tool_pointed="pointed_at:mount")

    async with AmplifierSession(plan) as session:
        assert notified == [session.coordinator]


async def test_a_module_that_another_distribution_declares_since_is_found_there(
    monkeypatch: pytest.MonkeyPatch, declare: Points
) -> None:
    package(monkeypatch, "first_home", mount=mount_of("first_home", "first"))
    package(monkeypatch, "second_home", mount=mount_of("second_home", "second"))
    declare(tool_moving="first_home:mount")
    old = ModuleLoader()
    assert await mounted_tool(old, "tool-moving") == "first"

    declare(tool_moving="second_home:mount")

    assert await mounted_tool(ModuleLoader(), "tool-moving") == "second"
    # A loader that has loaded a module stays with it: two of one session must not differ.
    assert await mounted_tool(old, "tool-moving") == "first"


async def test_an_entry_point_that_fails_to_load_says_which_and_why(declare: Points) -> None:
    declare(tool_broken="no_such_package_at_all:mount")

    with pytest.raises(ModuleLoadError) as caught:
        await ModuleLoader().load("tool-broken")

    assert (caught.value.module_id, caught.value.reason_code) == (
        "tool-broken",
        "invalid_entry_point",
    )
    for part in ("tool-broken", "no_such_package_at_all:mount", "No module named"):
        assert part in str(caught.value)
    assert isinstance(caught.value.__cause__, ImportError)


async def test_a_module_nobody_has_is_named_with_the_places_and_what_to_do(
    installed: Installer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ModuleNotFoundError, match="Install the package") as caught:
        await ModuleLoader(search_paths=[tmp_path]).load("tool-absent")

    assert (caught.value.module_id, caught.value.reason_code) == ("tool-absent", "missing_source")
    assert caught.value.tried == ("entry points", "amplifier_module_tool_absent", str(tmp_path))
    assert "tool-absent" in caplog.text


async def test_a_module_installed_since_the_metadata_was_read_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points: list[EntryPoint] = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        return points if group == "amplifier.modules" else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    package(monkeypatch, "new_home", mount=mount_of("new_home", "new"))
    loader = ModuleLoader(search_paths=[])
    assert await loader.discover() == []

    points.append(EntryPoint("tool-new", "new_home:mount", "amplifier.modules"))

    assert await mounted_tool(loader, "tool-new") == "new"


class Folders:
    """A resolver of local folders, by module id."""

    def __init__(self, **folders: Path) -> None:
        self.folders = {name.replace("_", "-"): path for name, path in folders.items()}

    def resolve(self, module_id: str) -> Any:
        if module_id not in self.folders:
            raise ModuleNotFoundError(f"not one of mine: {module_id}", module_id=module_id)
        folder = self.folders[module_id]

        class Source:
            def resolve(self) -> Path:
                return folder

        return Source()


async def resolving(**folders: Path) -> tuple[ModuleLoader, Folders]:
    """Make a loader whose coordinator has a resolver of these folders."""
    coordinator = ModuleCoordinator()
    resolver = Folders(**folders)
    await coordinator.mount("module-source-resolver", resolver)
    return ModuleLoader(coordinator), resolver


async def test_a_folder_without_a_package_is_refused_with_its_reason(
    installed: Installer, tmp_path: Path
) -> None:
    loader, _ = await resolving(tool_empty=tmp_path)

    with pytest.raises(ModuleValidationError, match="no valid Python package") as caught:
        await loader.load("tool-empty")

    assert (caught.value.module_id, caught.value.reason_code) == (
        "tool-empty",
        "invalid_package_layout",
    )
    assert str(tmp_path) in str(caught.value)


async def test_a_module_is_not_loaded_from_a_second_place(
    installed: Installer, tmp_path: Path
) -> None:
    first = write_module(tmp_path / "a", "tool-moved", MOUNT)
    second = write_module(tmp_path / "b", "tool-moved", MOUNT)
    loader, resolver = await resolving(tool_moved=first)
    await loader.load("tool-moved")
    await loader.load("tool-moved")

    resolver.folders["tool-moved"] = second
    with pytest.raises(ModuleLoadError, match="Refusing to load 'tool-moved'") as caught:
        await loader.load("tool-moved")
    loader.cleanup()

    assert caught.value.module_id == "tool-moved"
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)


async def test_a_resolved_module_is_notified_when_ready_and_its_fault_is_logged_by_its_id(
    installed: Installer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = write_module(
        tmp_path / "a", "tool-good", f"{MOUNT}\n    async def on_session_ready(coordinator): ...\n"
    )
    bad = write_module(
        tmp_path / "b", "tool-bad", f"{MOUNT}\n    def on_session_ready(coordinator): ...\n"
    )
    loader, _ = await resolving(tool_good=good, tool_bad=bad)

    notified = getattr(await loader.load("tool-good"), "__on_session_ready__", None)
    skipped = getattr(await loader.load("tool-bad"), "__on_session_ready__", None)
    loader.cleanup()

    assert notified is not None
    assert notified[0] == "tool-good"
    assert skipped is None
    assert "module=tool-bad" in caplog.text


async def test_a_resolver_that_does_not_know_a_module_leaves_it_to_what_is_installed(
    installed: Installer, tmp_path: Path
) -> None:
    loader, _ = await resolving()
    installed.add("tool-here", mounting("tools", "here", "t"))

    assert await mounted_tool(loader, "tool-here") == "here"
    with pytest.raises(ModuleNotFoundError, match="not one of mine") as caught:
        await loader.load("tool-nowhere")
    assert caught.value.module_id == "tool-nowhere"


async def test_a_loader_can_be_used_again_after_its_cleanup(
    installed: Installer, tmp_path: Path
) -> None:
    home = write_module(tmp_path, "tool-again", MOUNT)
    loader, _ = await resolving(tool_again=home)
    other, _ = await resolving(tool_again=home)
    await loader.load("tool-again")
    await other.load("tool-again")

    loader.cleanup()
    loader.cleanup()
    assert str(home) in sys.path
    other.cleanup()

    assert str(home) not in sys.path


async def test_a_declared_type_counts_more_than_the_words_of_an_id(
    monkeypatch: pytest.MonkeyPatch, declare: Points, tmp_path: Path
) -> None:
    write_module(tmp_path, "tool-guard", '__amplifier_module_type__ = "hook"\n')
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    declare(tool_guard="amplifier_module_tool_guard:mount")

    (info,) = await ModuleLoader(search_paths=[]).discover()

    assert (info.type, info.mount_point) == ("hook", "hooks")
    assert (info.name, info.description) == ("Tool Guard", "Module: tool-guard")
    assert info.version == "1.0.0"


async def test_search_paths_are_read_from_the_environment_when_none_are_given(
    monkeypatch: pytest.MonkeyPatch, installed: Installer, tmp_path: Path
) -> None:
    for folder in ("a", "b"):
        write_module(tmp_path / folder / f"tool-{folder}", f"tool-{folder}", MOUNT)
    monkeypatch.setenv("AMPLIFIER_MODULES", f"{tmp_path / 'a'}::{tmp_path / 'b'}")
    loader = ModuleLoader()

    for module_id in ("tool-a", "tool-b"):
        coordinator = ModuleCoordinator()
        await (await loader.load(module_id))(coordinator)
        assert coordinator.get_capability("mounted")
    loader.cleanup()
    with pytest.raises(ModuleNotFoundError) as caught:
        await loader.load("tool-c")
    assert caught.value.tried[2:] == (str(tmp_path / "a"), str(tmp_path / "b"))


async def test_a_module_is_notified_and_its_fault_logged_by_its_id_each_time_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
    installed: Installer,
    declare: Points,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ready(coordinator: ModuleCoordinator) -> None: ...

    def faulty(coordinator: ModuleCoordinator) -> None: ...

    installed.add("tool-named", mounting("tools", "t", "t"), on_session_ready=ready)
    installed.add("tool-faulty", mounting("tools", "t", "t"), on_session_ready=faulty)
    mount = mount_of("pointed", "t")
    package(monkeypatch, "pointed", mount=mount, on_session_ready=faulty)
    package(monkeypatch, "ready_home", mount=mount_of("ready_home", "t"), on_session_ready=ready)
    declare(tool_pointed="pointed:mount", tool_ready="ready_home:mount")
    loader = ModuleLoader()

    for _ in range(2):
        for module_id in ("tool-named", "tool-ready"):
            bound = await loader.load(module_id)
            assert getattr(bound, "__on_session_ready__", None) == (module_id, ready)
        assert not hasattr(await loader.load("tool-faulty"), "__on_session_ready__")
        assert not hasattr(await loader.load("tool-pointed"), "__on_session_ready__")

    for module_id in ("tool-faulty", "tool-pointed"):
        assert f"module={module_id}" in caplog.text


async def test_an_entry_point_counts_more_than_a_package_of_the_usual_name(
    monkeypatch: pytest.MonkeyPatch, installed: Installer, declare: Points
) -> None:
    installed.add("tool-both", mounting("tools", "by name", "t"))
    package(monkeypatch, "other_home", mount=mount_of("other_home", "by entry point"))
    declare(tool_both="other_home:mount")

    assert await mounted_tool(ModuleLoader(), "tool-both") == "by entry point"


async def test_without_search_paths_only_what_is_installed_is_tried(
    monkeypatch: pytest.MonkeyPatch, installed: Installer
) -> None:
    monkeypatch.delenv("AMPLIFIER_MODULES", raising=False)

    with pytest.raises(ModuleNotFoundError) as caught:
        await ModuleLoader().load("tool-absent")

    assert caught.value.tried == ("entry points", "amplifier_module_tool_absent")


async def test_a_resolved_module_of_another_language_is_refused_by_its_id(
    installed: Installer, tmp_path: Path
) -> None:
    home = write_module(tmp_path, "tool-rusty", MOUNT)
    (home / "amplifier.toml").write_text('[module]\ntransport = "wasm"', encoding="utf-8")
    loader, _ = await resolving(tool_rusty=home)

    with pytest.raises(ModuleLoadError, match="'tool-rusty' uses transport 'wasm'") as caught:
        await loader.load("tool-rusty")

    assert caught.value.module_id == "tool-rusty"


async def test_what_a_resolver_had_is_not_found_without_the_resolver(
    installed: Installer, tmp_path: Path
) -> None:
    home = write_module(tmp_path, "tool-mine", MOUNT, package="tool_mine")
    coordinator = ModuleCoordinator()
    await coordinator.mount("module-source-resolver", Folders(tool_mine=home))
    loader = ModuleLoader(coordinator)
    await loader.load("tool-mine")

    await coordinator.unmount("module-source-resolver")
    with pytest.raises(ModuleNotFoundError):
        await loader.load("tool-mine")
    loader.cleanup()
    sys.modules.pop("tool_mine")
