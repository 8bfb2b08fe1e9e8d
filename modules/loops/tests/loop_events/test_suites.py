"""The kernel's suites for orchestrators, inherited."""

from __future__ import annotations

from amplifier_conformance import OrchestratorFaultTests
from amplifier_core.validation.behavioral import OrchestratorBehaviorTests
from amplifier_core.validation.structural import OrchestratorStructuralTests


class TestStructure(OrchestratorStructuralTests):
    """It has the structure of an orchestrator."""


class TestBehavior(OrchestratorBehaviorTests):
    """It behaves like an orchestrator."""


class TestFaults(OrchestratorFaultTests):
    """It keeps the rules when things go wrong."""
