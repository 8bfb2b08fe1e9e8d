"""What the tests of the kernel share: modules that exist only for one test."""

from __future__ import annotations

import importlib.metadata
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from contract.installer import Installer
from contract.planted_modules import IMPORTS, Plant


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Installer:
    """An environment in which exactly the modules a test adds are installed."""

    def nothing(**_kwargs: Any) -> list[Any]:
        return []

    monkeypatch.setattr(importlib.metadata, "entry_points", nothing)
    return Installer(monkeypatch)


@pytest.fixture
def forgotten_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the tools that a test imports, and its import path."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("amplifier_module_tool_"):
            del sys.modules[name]


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    """Write a module of the given source as a package that no other test has met."""
    names: list[str] = []

    def write(source: str) -> Path:
        package = tmp_path / f"amplifier_module_planted_{uuid4().hex}"
        names.append(package.name)
        package.mkdir()
        text = IMPORTS + textwrap.dedent(source)
        (package / "__init__.py").write_text(text, encoding="utf-8")
        return package

    yield write
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    """An empty folder with the settings that published modules use."""
    pytester.makepyprojecttoml(
        """
        [tool.pytest.ini_options]
        addopts = "--import-mode=importlib --strict-markers -p no:cacheprovider -p no:randomly"
        asyncio_mode = "strict"
        asyncio_default_fixture_loop_scope = "function"
        """
    )
    return pytester
