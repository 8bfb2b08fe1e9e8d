"""The kernel's suites for tools, inherited."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_conformance import ToolFaultTests
from amplifier_core.validation.behavioral import ToolBehaviorTests
from amplifier_core.validation.structural import ToolStructuralTests


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class TestStructure(ToolStructuralTests):
    """It has the structure of a tool."""


class TestBehavior(ToolBehaviorTests):
    """It behaves like a tool."""


class TestFaults(ToolFaultTests):
    """It keeps the rules when things go wrong."""
