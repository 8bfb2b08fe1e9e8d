"""The kernel's suites for hooks, inherited."""

from __future__ import annotations

from amplifier_conformance import HookFaultTests
from amplifier_core.validation.behavioral import HookBehaviorTests
from amplifier_core.validation.structural import HookStructuralTests


class TestStructure(HookStructuralTests):
    """It has the structure of a hook module."""


class TestBehavior(HookBehaviorTests):
    """It behaves like a hook module."""


class TestFaults(HookFaultTests):
    """It keeps the rules when things go wrong."""
