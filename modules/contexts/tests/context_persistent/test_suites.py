"""The kernel's suites for contexts, inherited."""

from __future__ import annotations

from amplifier_conformance import ContextFaultTests
from amplifier_core.validation.behavioral import ContextBehaviorTests
from amplifier_core.validation.structural import ContextStructuralTests


class TestStructure(ContextStructuralTests):
    """It has the structure of a context."""


class TestBehavior(ContextBehaviorTests):
    """It behaves like a context."""


class TestFaults(ContextFaultTests):
    """It keeps the rules when things go wrong."""
