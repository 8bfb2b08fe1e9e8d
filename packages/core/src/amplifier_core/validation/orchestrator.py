"""The validator of orchestrators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amplifier_core.validation.base import ModuleValidator, ValidationCheck, check_coroutine_method

__all__ = ["OrchestratorValidator"]

# prompt, context, providers, tools, hooks
_ARGUMENTS = 5


class OrchestratorValidator(ModuleValidator):
    """Validates a module that mounts an orchestrator."""

    module_type = "orchestrator"
    protocol_name = "Orchestrator"
    thing = "orchestrator"

    def inspect(self, instance: Any) -> Iterator[ValidationCheck]:
        """Check the orchestrator."""
        yield check_coroutine_method("orchestrator_execute", instance, "execute", _ARGUMENTS)
