"""The kernel's suites for tools, inherited."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from amplifier_conformance import ToolFaultTests
from amplifier_core.validation.behavioral import ToolBehaviorTests
from amplifier_core.validation.structural import ToolStructuralTests


@pytest.fixture(autouse=True)
def in_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class TestStructure(ToolStructuralTests):
    """It has the structure of a tool."""


class TestBehavior(ToolBehaviorTests):
    """It behaves like a tool."""


class TestFaults(ToolFaultTests):
    """It keeps the rules when things go wrong."""

    slow_input: ClassVar[dict[str, Any] | None] = {"command": "sleep 60"}
