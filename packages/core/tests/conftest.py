"""What the tests of the kernel share: modules that exist only for one test."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest

from contract.installer import Installer


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Installer:
    """An environment in which exactly the modules a test adds are installed."""

    def nothing(**_kwargs: Any) -> list[Any]:
        return []

    monkeypatch.setattr(importlib.metadata, "entry_points", nothing)
    return Installer(monkeypatch)
