"""Suites for a module's own tests that run the validator of its type.

from amplifier_core.validation.structural import ToolStructuralTests

class TestStructure(ToolStructuralTests): ...
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from amplifier_core.validation.base import ModuleValidator, check_on_session_ready
from amplifier_core.validation.context import ContextValidator
from amplifier_core.validation.hook import HookValidator
from amplifier_core.validation.orchestrator import OrchestratorValidator
from amplifier_core.validation.provider import ProviderValidator
from amplifier_core.validation.tool import ToolValidator

__all__ = [
    "ContextStructuralTests",
    "HookStructuralTests",
    "OrchestratorStructuralTests",
    "ProviderStructuralTests",
    "ToolStructuralTests",
    "check_on_session_ready",
]


@pytest.mark.asyncio
@pytest.mark.module_validation
class _StructuralTests:
    validator: ClassVar[type[ModuleValidator]]

    async def test_structural_validation(self, module_path: Path | None) -> None:
        """The module has the structure that its type demands."""
        if module_path is None:
            pytest.skip("no module under test: run in its folder, or pass --module-path")
        result = await self.validator().validate(module_path)
        errors = "".join(f"\n  {check.name}: {check.message}" for check in result.errors)
        assert result.passed, f"{result.summary()}{errors}"


class ProviderStructuralTests(_StructuralTests):
    """The structure of a provider."""

    validator = ProviderValidator


class ToolStructuralTests(_StructuralTests):
    """The structure of a tool."""

    validator = ToolValidator


class HookStructuralTests(_StructuralTests):
    """The structure of a hook module."""

    validator = HookValidator


class OrchestratorStructuralTests(_StructuralTests):
    """The structure of an orchestrator."""

    validator = OrchestratorValidator


class ContextStructuralTests(_StructuralTests):
    """The structure of a context manager."""

    validator = ContextValidator
