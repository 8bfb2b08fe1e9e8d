"""The kernel's suites for tools, inherited."""

from __future__ import annotations

from typing import Any, ClassVar

from amplifier_conformance import ToolFaultTests
from amplifier_core.validation.behavioral import ToolBehaviorTests
from amplifier_core.validation.structural import ToolStructuralTests


class TestStructure(ToolStructuralTests):
    """It has the structure of a tool."""


class TestBehavior(ToolBehaviorTests):
    """It behaves like a tool."""


class TestFaults(ToolFaultTests):
    """It keeps the rules when things go wrong."""

    # A public address, which the suite leads to a server that never answers.
    slow_input: ClassVar[dict[str, Any] | None] = {"url": "http://93.184.215.14/"}
