"""The kernel's suites for providers, inherited."""

from __future__ import annotations

from amplifier_conformance import ProviderFaultTests
from amplifier_core.validation.behavioral import ProviderBehaviorTests
from amplifier_core.validation.structural import ProviderStructuralTests


class TestStructure(ProviderStructuralTests):
    """It has the structure of a provider."""


class TestBehavior(ProviderBehaviorTests):
    """It behaves like a provider."""


class TestFaults(ProviderFaultTests):
    """It keeps the rules when things go wrong."""
