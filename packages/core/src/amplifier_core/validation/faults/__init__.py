"""Suites for a module's own tests that hold it to the laws when things go wrong.

    from amplifier_core.validation.faults import ToolFaultTests

    class TestFaults(ToolFaultTests):
        slow_input = {"url": "https://example.test/"}

A failure begins with the law that was broken; a law that is only recommended warns.
"""

from __future__ import annotations

from amplifier_core.validation.faults.context import ContextFaultTests
from amplifier_core.validation.faults.hook import HookFaultTests
from amplifier_core.validation.faults.laws import LAWS, RECOMMENDED, RecommendationWarning
from amplifier_core.validation.faults.orchestrator import OrchestratorFaultTests
from amplifier_core.validation.faults.provider import ProviderFaultTests
from amplifier_core.validation.faults.tool import ToolFaultTests

__all__ = [
    "LAWS",
    "RECOMMENDED",
    "ContextFaultTests",
    "HookFaultTests",
    "OrchestratorFaultTests",
    "ProviderFaultTests",
    "RecommendationWarning",
    "ToolFaultTests",
]
