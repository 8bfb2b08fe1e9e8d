"""The kernel's suites for tools, inherited."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from amplifier_conformance import ToolFaultTests
from amplifier_core import AmplifierSession
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.validation.behavioral import ToolBehaviorTests
from amplifier_core.validation.structural import ToolStructuralTests


class TestStructure(ToolStructuralTests):
    """It has the structure of a tool."""


class TestBehavior(ToolBehaviorTests):
    """It behaves like a tool."""


class TestFaults(ToolFaultTests):
    """It keeps the rules when things go wrong."""

    slow_input: ClassVar[dict[str, Any] | None] = {"prompt": "Take your time."}

    @pytest.fixture
    def coordinator(self) -> ModuleCoordinator:
        """One of a session that can be forked, whose children take an hour."""
        config = {"mode": "echo", "delay_seconds": 3600}
        plan = {
            "session": {"orchestrator": "loop-basic", "context": "context-simple"},
            "providers": [{"module": "provider-mock", "config": config}],
        }
        return AmplifierSession(plan).coordinator
