"""Tests of what the loader asks a resolver, and of loading without one."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator, ModuleLoader
from amplifier_core.errors import ModuleLoadError, ModuleValidationError
from contract.installer import Folder, Installer, mounting, write_module
from contract.requirements import requirement

pytestmark = pytest.mark.usefixtures("forgotten_imports")

MOUNT = "async def mount(coordinator, config): ..."


class PositionalResolver:
    """A resolver whose hint has a name of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hints: list[Any] = []

    def resolve(self, module_id: str, hint: Any = None) -> Folder:
        self.hints.append(hint)
        return Folder(self.path)


@requirement("LOAD-35")
async def test_a_hint_without_a_known_name_is_passed_second(tmp_path: Path) -> None:
    coordinator = ModuleCoordinator()
    resolver = PositionalResolver(write_module(tmp_path, "tool-hinted", MOUNT))
    await coordinator.mount("module-source-resolver", resolver)

    await ModuleLoader(coordinator).load("tool-hinted", source_hint="here")

    assert resolver.hints == ["here"]


@requirement("LOAD-35")
async def test_a_resolver_that_takes_no_hint_gets_none(tmp_path: Path) -> None:
    folder = write_module(tmp_path, "tool-plain", MOUNT)

    class Resolver:
        def resolve(self, module_id: str) -> Folder:
            return Folder(folder)

    coordinator = ModuleCoordinator()
    await coordinator.mount("module-source-resolver", Resolver())

    assert await ModuleLoader(coordinator).load("tool-plain", source_hint="here")


@requirement("LOAD-35")
async def test_a_resolver_may_be_a_plain_function_that_takes_no_hint(tmp_path: Path) -> None:
    folder = write_module(tmp_path, "tool-function", MOUNT)

    def resolve(module_id: str) -> Folder:
        return Folder(folder)

    coordinator = ModuleCoordinator()
    await coordinator.mount("module-source-resolver", SimpleNamespace(resolve=resolve))

    assert await ModuleLoader(coordinator).load("tool-function", source_hint="here")


async def test_a_resolver_is_not_kept_in_memory_after_its_session(tmp_path: Path) -> None:
    coordinator = ModuleCoordinator()
    resolver = PositionalResolver(write_module(tmp_path, "tool-hinted", MOUNT))
    known = weakref.ref(resolver)
    await coordinator.mount("module-source-resolver", resolver)
    await ModuleLoader(coordinator).load("tool-hinted")

    del coordinator, resolver
    gc.collect()

    assert known() is None


@requirement("LOAD-35")
async def test_a_coordinator_without_the_mount_point_means_no_resolver(
    installed: Installer,
) -> None:
    installed.add("tool-known", mounting("tools", object(), "known"))

    class Bare:
        def get(self, mount_point: str) -> None:
            raise ValueError(f"Unknown mount point: {mount_point}")

    coordinator: Any = Bare()

    assert await ModuleLoader(coordinator).load("tool-known")


@requirement("LOAD-36")
async def test_an_overridden_direct_search_decides(installed: Installer) -> None:
    installed.add("tool-known", mounting("tools", object(), "known"))
    mount = await ModuleLoader().load("tool-known")

    class Elsewhere(ModuleLoader):
        async def _load_direct(self, module_id: str, config: dict[str, Any] | None = None) -> Any:
            return (module_id, config)

    loaded: Any = await Elsewhere().load("tool-known", {"a": 1})

    assert loaded == ("tool-known", {"a": 1})
    assert callable(mount)


@requirement("LOAD-16")
async def test_a_package_without_mount_is_a_load_error_and_a_validation_error(
    tmp_path: Path,
) -> None:
    coordinator = ModuleCoordinator()
    resolver = PositionalResolver(write_module(tmp_path, "tool-empty", ""))
    await coordinator.mount("module-source-resolver", resolver)

    with pytest.raises(ModuleLoadError) as raised:
        await ModuleLoader(coordinator).load("tool-empty")

    assert isinstance(raised.value, ModuleValidationError)
