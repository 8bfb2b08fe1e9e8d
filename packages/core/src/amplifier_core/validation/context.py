"""The validator of context managers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amplifier_core.validation.base import ModuleValidator, ValidationCheck, check_coroutine_method

__all__ = ["ContextValidator"]

_METHODS = {
    "add_message": 1,
    "get_messages_for_request": 0,
    "get_messages": 0,
    "set_messages": 1,
    "clear": 0,
}


class ContextValidator(ModuleValidator):
    """Validates a module that mounts a context manager."""

    module_type = "context"
    protocol_name = "ContextManager"
    thing = "context manager"

    def inspect(self, instance: Any) -> Iterator[ValidationCheck]:
        """Check the context manager."""
        for method, parameters in _METHODS.items():
            yield check_coroutine_method(f"context_{method}", instance, method, parameters)
