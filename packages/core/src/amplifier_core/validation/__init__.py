"""Validators of the five module types and of mount plans.

They need no pytest. The suites that a module's own tests inherit are in `structural` and
`behavioral`; those for faults are in the distribution `amplifier-conformance`.
"""

from __future__ import annotations

from amplifier_core.validation.base import ValidationCheck, ValidationResult
from amplifier_core.validation.context import ContextValidator
from amplifier_core.validation.hook import HookValidator
from amplifier_core.validation.mount_plan import MountPlanValidationResult, MountPlanValidator
from amplifier_core.validation.orchestrator import OrchestratorValidator
from amplifier_core.validation.provider import ProviderValidator
from amplifier_core.validation.tool import ToolValidator

__all__ = [
    "ContextValidator",
    "HookValidator",
    "MountPlanValidationResult",
    "MountPlanValidator",
    "OrchestratorValidator",
    "ProviderValidator",
    "ToolValidator",
    "ValidationCheck",
    "ValidationResult",
]
