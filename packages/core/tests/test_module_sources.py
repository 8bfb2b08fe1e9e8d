"""Tests of the contracts between the loader and an app's resolver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core.module_sources import (
    FileSystemModuleSource,
    ModuleSource,
    ModuleSourceResolver,
)


class Somewhere:
    def resolve(self) -> Path:
        return Path("/opt")


class Resolver:
    def resolve(
        self, module_id: str, source_hint: Any = None, profile_hint: Any = None
    ) -> ModuleSource:
        return Somewhere()


def test_whatever_can_resolve_is_a_source_or_a_resolver() -> None:
    assert isinstance(Somewhere(), ModuleSource)
    assert isinstance(Resolver(), ModuleSourceResolver)
    assert not isinstance(object(), ModuleSource)


def test_a_derived_source_must_say_how_it_resolves() -> None:
    class Incomplete(ModuleSource):
        pass

    class Complete(ModuleSource):
        def resolve(self) -> Path:
            return Path("/opt")

    with pytest.raises(TypeError, match="abstract"):
        Incomplete()  # pyright: ignore[reportAbstractUsage] - the point of the test
    assert isinstance(Complete(), ModuleSource)


def test_a_file_system_source_hands_out_copies() -> None:
    paths = ["/a", "/b"]
    source = FileSystemModuleSource(paths)

    source.get_module_paths().clear()
    source.get_mention_mappings()["x"] = "y"
    paths.clear()

    assert source.get_module_paths() == ["/a", "/b"]
    assert source.get_mention_mappings() == {}


def test_a_file_system_source_without_paths_has_none() -> None:
    source = FileSystemModuleSource()

    assert source.get_module_paths() == []
    assert not isinstance(source, ModuleSource)
