"""Fixtures of the contract tests."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.installer import Installer


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
