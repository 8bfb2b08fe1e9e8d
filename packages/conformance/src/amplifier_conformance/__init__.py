"""Suites for a module's own tests: what it must guarantee when something around it fails.

    from amplifier_conformance import ToolFaultTests

    class TestFaults(ToolFaultTests):
        slow_input = {"url": "https://example.test/"}

A failure begins with the rule that was broken; a rule that is only recommended warns.
"""

from __future__ import annotations

from amplifier_conformance.context import ContextFaultTests
from amplifier_conformance.hook import HookFaultTests
from amplifier_conformance.orchestrator import OrchestratorFaultTests
from amplifier_conformance.provider import ProviderFaultTests
from amplifier_conformance.rules import RECOMMENDED, RULES, RecommendationWarning
from amplifier_conformance.tool import ToolFaultTests

__all__ = [
    "RECOMMENDED",
    "RULES",
    "ContextFaultTests",
    "HookFaultTests",
    "OrchestratorFaultTests",
    "ProviderFaultTests",
    "RecommendationWarning",
    "ToolFaultTests",
]
