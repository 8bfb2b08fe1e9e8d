"""Contract of the loader: direct discovery, what it returns, and what it says when it fails."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, ModuleLoader, module_sources
from amplifier_core.loader import (
    MODULE_FAILURE_REASONS,
    TYPE_TO_MOUNT_POINT,
    ModuleValidationError,
    module_failure_reason,
)
from contract.doubles import Listener, raising
from contract.installer import Installer, mounting, write_module
from contract.requirements import requirement


class EntryPoint:
    """An installed entry point of the group, made by hand."""

    group = "amplifier.modules"

    def __init__(self, name: str, mount: Any) -> None:
        self.name = name
        self.value = f"made_by_hand_{name}:mount"
        self.mount = mount
        self.loads = 0

    def load(self) -> Any:
        """Give the mount function, or raise what stands in its place."""
        self.loads += 1
        if isinstance(self.mount, Exception):
            raise self.mount
        return self.mount


def _entry_points(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    def find(*, group: str) -> list[EntryPoint]:
        return [point for point in points if point.group == group]

    monkeypatch.setattr(importlib.metadata, "entry_points", find)


@requirement("LOAD-1")
def test_a_loader_needs_nothing_and_shows_its_coordinator(tmp_path: Path) -> None:
    coordinator = ModuleCoordinator()

    assert ModuleLoader().coordinator is None
    assert ModuleLoader(coordinator).coordinator is coordinator
    assert ModuleLoader(coordinator=coordinator, search_paths=[tmp_path]).coordinator is coordinator


@requirement("LOAD-2", "LOAD-3", "LOAD-4", "LOAD-25", "SRC-5")
async def test_an_installed_module_is_loaded_once_and_bound_to_each_config(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configs: list[dict[str, Any]] = []

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> str:
        configs.append(config)
        return coordinator.session_id

    point = EntryPoint("tool-installed", mount)
    loader = ModuleLoader()
    _entry_points(monkeypatch, point)

    first = await loader.load("tool-installed", {"n": 1})
    second = await loader.load("tool-installed", {"n": 2})
    bare = await loader.load("tool-installed")

    assert configs == []
    coordinator = ModuleCoordinator()
    assert [await bound(coordinator) for bound in (second, first, bare)] == [""] * 3
    assert configs == [{"n": 2}, {"n": 1}, {}]
    assert point.loads == 1


@requirement("LOAD-5", "LOAD-6")
async def test_a_package_is_found_on_the_import_path_and_on_search_paths(
    installed: Installer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
        async def mount(coordinator, config):
            return __name__
    """
    importable = write_module(tmp_path / "importable", "tool-importable", source)
    monkeypatch.setattr(sys, "path", [str(importable), *sys.path])
    searched = tmp_path / "searched"
    write_module(searched / "amplifier-module-tool-searched", "tool-searched", source)
    loader = ModuleLoader(search_paths=[searched])

    for module_id in ("tool-importable", "tool-searched"):
        bound = await loader.load(module_id)
        name = f"amplifier_module_{module_id.replace('-', '_')}"
        assert await bound(ModuleCoordinator()) == name
    loader.cleanup()


@requirement("LOAD-7", "LOAD-26")
async def test_a_module_nobody_knows_is_named_with_the_places_asked(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    text = "Module 'tool-absent' not found via entry points or filesystem"

    with pytest.raises(ValueError, match=text) as caught:
        await ModuleLoader().load("tool-absent")

    assert isinstance(caught.value, module_sources.ModuleNotFoundError)
    assert module_failure_reason(caught.value) == "missing_source"
    assert "Failed to load module 'tool-absent'" in caplog.text
    assert [record.name for record in caplog.records] == ["amplifier_core.loader"]


@requirement("LOAD-8", "LOAD-26")
async def test_a_module_that_is_there_but_broken_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cause = ImportError("no such library")
    _entry_points(monkeypatch, EntryPoint("tool-broken", cause))
    write_module(tmp_path / "amplifier-module-tool-syntax", "tool-syntax", "def mount(:")
    loader = ModuleLoader(search_paths=[tmp_path])

    for module_id in ("tool-broken", "tool-syntax"):
        with pytest.raises(ValueError, match=r"failed to load|does not import") as caught:
            await loader.load(module_id)
        assert isinstance(caught.value, module_sources.ModuleLoadError)
        assert caught.value.__cause__ is not None
        assert module_failure_reason(caught.value) in MODULE_FAILURE_REASONS
        assert f"Failed to load module '{module_id}'" in caplog.text
    loader.cleanup()


@requirement("LOAD-19")
def test_every_type_has_its_mount_point() -> None:
    assert TYPE_TO_MOUNT_POINT == {
        "orchestrator": "orchestrator",
        "provider": "providers",
        "tool": "tools",
        "hook": "hooks",
        "context": "context",
        "resolver": "module-source-resolver",
    }


@requirement("LOAD-20", "ERR-7")
def test_every_failure_has_a_reason_code() -> None:
    assert set(MODULE_FAILURE_REASONS) == {
        "invalid_package_layout",
        "missing_source",
        "invalid_entry_point",
        "invalid_module_metadata",
        "validation_failed",
        "unknown",
    }
    assert module_failure_reason(module_sources.ModuleNotFoundError("x")) == "missing_source"
    assert module_failure_reason(ModuleValidationError("x")) == "validation_failed"
    coded = ModuleValidationError("x", reason_code="invalid_package_layout")
    assert module_failure_reason(coded) == "invalid_package_layout"
    assert module_failure_reason(RuntimeError("x")) == "unknown"


def _empty(folder: Path, *module_ids: str) -> Path:
    for module_id in module_ids:
        (folder / f"amplifier-module-{module_id}").mkdir(parents=True)
    return folder


@requirement("LOAD-21", "LOAD-22", "LOAD-24")
async def test_what_is_installed_and_what_lies_on_the_paths_is_discovered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _entry_points(monkeypatch, EntryPoint("provider-installed", mounting("providers", object())))
    given = _empty(tmp_path / "given", "tool-my-weather")
    environment = _empty(tmp_path / "environment", "context-env", "hooks-env")
    (given / "unrelated").mkdir()
    monkeypatch.setenv("AMPLIFIER_MODULES", f"{environment}:{tmp_path / 'missing'}")

    by_path = await ModuleLoader(search_paths=[given]).discover()
    assert caplog.records == []
    by_environment = await ModuleLoader().discover()

    assert [info.id for info in by_path] == ["provider-installed", "tool-my-weather"]
    assert {info.id for info in by_environment} == {
        "provider-installed",
        "context-env",
        "hooks-env",
    }
    assert by_path[1].model_dump() == {
        "id": "tool-my-weather",
        "name": "Tool My Weather",
        "version": "1.0.0",
        "type": "tool",
        "mount_point": "tools",
        "description": "Module: tool-my-weather",
        "config_schema": None,
    }
    (warned,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "missing" in warned.getMessage()


@requirement("LOAD-23")
async def test_a_type_is_guessed_from_the_id_when_none_is_declared(
    installed: Installer, tmp_path: Path
) -> None:
    guesses = {
        "loop-x": "orchestrator",
        "my-orchestrator": "orchestrator",
        "provider-x": "provider",
        "tool-x": "tool",
        "hooks-x": "hook",
        "context-x": "context",
        "something-else": "tool",
    }
    _empty(tmp_path, *guesses)

    found = await ModuleLoader(search_paths=[tmp_path]).discover()

    assert {info.id: info.type for info in found} == guesses
    assert {info.mount_point for info in found} == {
        TYPE_TO_MOUNT_POINT[kind] for kind in guesses.values()
    }


@requirement("LOAD-23")
async def test_a_declared_type_counts_more_than_the_id(
    installed: Installer, tmp_path: Path
) -> None:
    write_module(
        tmp_path / "amplifier-module-tool-declared",
        "tool-declared",
        """
        __amplifier_module_type__ = "hook"

        async def mount(coordinator, config): ...
        """,
    )
    loader = ModuleLoader(search_paths=[tmp_path])

    (info,) = await loader.discover()
    loader.cleanup()

    assert (info.type, info.mount_point) == ("hook", "hooks")


@requirement("LOAD-27")
async def test_initialising_through_the_loader_gives_the_cleanup_or_the_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loader, coordinator = ModuleLoader(), ModuleCoordinator()
    cleanup = Listener()

    async def bound(coordinator: ModuleCoordinator) -> Listener:
        return cleanup

    assert await loader.initialize(bound, coordinator) is cleanup
    with pytest.raises(RuntimeError, match="boom"):
        await loader.initialize(raising(RuntimeError("boom")), coordinator)
    assert "ERROR" in [record.levelname for record in caplog.records]


@requirement("LOAD-28", "LOAD-29")
async def test_ready_functions_are_queued_by_whoever_mounts(installed: Installer) -> None:
    async def on_session_ready(coordinator: ModuleCoordinator) -> None: ...

    installed.add("tool-ready", mounting("tools", object()), on_session_ready=on_session_ready)
    installed.add("tool-plain", mounting("tools", object()))
    loader = ModuleLoader()

    ready: Any = await loader.load("tool-ready")
    plain = await loader.load("tool-plain")
    assert ready.__on_session_ready__ == ("tool-ready", on_session_ready)
    assert not hasattr(plain, "__on_session_ready__")
    assert loader.get_on_session_ready_queue() == []

    loader.enqueue_on_session_ready(*ready.__on_session_ready__)
    loader.get_on_session_ready_queue().clear()
    assert loader.get_on_session_ready_queue() == [("tool-ready", on_session_ready)]
    loader.clear_on_session_ready_queue()
    assert loader.get_on_session_ready_queue() == []


@requirement("LOAD-33")
async def test_a_module_can_load_another_one_while_the_session_runs(installed: Installer) -> None:
    late = object()

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        assert coordinator.loader is not None
        bound = await coordinator.loader.load(config["dynamic_tool"], {})
        coordinator.register_cleanup(await bound(coordinator))

    installed.add("tool-dynamic", mounting("tools", late, "late"))
    installed.add("hooks-dynamic", mount)
    entry = {"module": "hooks-dynamic", "config": {"dynamic_tool": "tool-dynamic"}}

    async with AmplifierSession(installed.basics(hooks=[entry])) as session:
        assert session.coordinator.get("tools", "late") is late


@requirement("LOAD-25")
async def test_a_module_installed_after_the_loader_was_made_is_found(
    installed: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = ModuleLoader()
    with pytest.raises(module_sources.ModuleNotFoundError):
        await loader.load("tool-later")
    _entry_points(monkeypatch, EntryPoint("tool-later", mounting("tools", object())))

    assert callable(await loader.load("tool-later"))
    assert "amplifier_module_tool_later" not in sys.modules
