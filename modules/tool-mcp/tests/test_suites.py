"""The kernel's suites for tools, inherited."""

from __future__ import annotations

from amplifier_conformance import ToolFaultTests
from amplifier_core.validation.behavioral import ToolBehaviorTests
from amplifier_core.validation.structural import ToolStructuralTests


class TestStructure(ToolStructuralTests):
    """It has the structure of a tool."""


class TestBehavior(ToolBehaviorTests):
    """It behaves like a tool."""


class TestFaults(ToolFaultTests):
    """It keeps the rules when things go wrong."""
