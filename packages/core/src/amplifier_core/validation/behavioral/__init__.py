"""Suites for a module's own tests that check the behaviour its type requires.

from amplifier_core.validation.behavioral import ToolBehaviorTests

class TestBehavior(ToolBehaviorTests): ...
"""

from __future__ import annotations

from amplifier_core.validation.behavioral.context import ContextBehaviorTests
from amplifier_core.validation.behavioral.hook import HookBehaviorTests
from amplifier_core.validation.behavioral.orchestrator import OrchestratorBehaviorTests
from amplifier_core.validation.behavioral.provider import ProviderBehaviorTests
from amplifier_core.validation.behavioral.tool import ToolBehaviorTests

__all__ = [
    "ContextBehaviorTests",
    "HookBehaviorTests",
    "OrchestratorBehaviorTests",
    "ProviderBehaviorTests",
    "ToolBehaviorTests",
]
