"""Fixtures of the contract tests."""

from __future__ import annotations

import configparser
import importlib.metadata
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.installer import Installer
from contract.seed_modules import write_project


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Installer]:
    """An environment in which exactly the modules a test adds are installed."""

    def nothing(**_kwargs: Any) -> list[Any]:
        return []

    monkeypatch.setattr(importlib.metadata, "entry_points", nothing)
    yield Installer(monkeypatch)
    for name, module in list(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if origin and name.startswith("amplifier_module_") and tmp_path in Path(origin).parents:
            del sys.modules[name]


@pytest.fixture
def installed_seed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[str], Path]]:
    """Install the module of a kind that is put together from the contracts' blocks.

    Its entry points are those that the block of its `pyproject.toml` declares.
    """

    def install(kind: str) -> Path:
        folder = write_project(tmp_path, kind)
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        metadata = folder / f"my_{kind}-{project['version']}.dist-info"
        metadata.mkdir()
        lines = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        (metadata / "METADATA").write_text(lines, encoding="utf-8")
        points = configparser.ConfigParser()
        points.read_dict(project["entry-points"])
        with (metadata / "entry_points.txt").open("w", encoding="utf-8") as file:
            points.write(file)
        monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
        return folder

    yield install
    for name in list(sys.modules):
        if name.startswith("my_"):
            del sys.modules[name]
