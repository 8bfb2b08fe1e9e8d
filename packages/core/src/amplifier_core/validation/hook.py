"""The validator of hook modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.base import (
    ModuleValidator,
    ValidationCheck,
    failed,
    is_async,
    passed,
    takes,
)

__all__ = ["HookValidator"]


class HookValidator(ModuleValidator):
    """Validates a module that registers hook handlers."""

    module_type = "hook"
    protocol_name = "HookHandler"
    thing = "hook"

    def check_mounted(
        self, coordinator: MockCoordinator, returned: Any
    ) -> Iterator[ValidationCheck]:
        """Check the registered handlers.

        What mount returned is its cleanup and is not checked. A module that registers nothing yet
        may do so later, on an event or when the session is ready.
        """
        events = [event for event, names in coordinator.hooks.list_handlers().items() if names]
        if not events:
            yield passed("protocol_compliance", "No handler is registered at mount")
            return
        yield passed("protocol_compliance", f"Handlers registered for {', '.join(events)}")
        handlers: list[Any] = []
        for _, handler in coordinator.mount_points["hooks"].registered:
            if handler not in handlers:
                handlers.append(handler)
                yield from self.inspect(handler)

    def inspect(self, instance: Any) -> Iterator[ValidationCheck]:
        """Check one handler."""
        name = getattr(instance, "__qualname__", type(instance).__name__)
        if not callable(instance):
            yield failed("hook_call", f"{name} cannot be called")
        elif not is_async(instance):
            yield failed("hook_call", f"{name} must be async (async def handler(event, data))")
        elif not takes(instance, 2):
            yield failed("hook_call", f"{name} must accept event and data")
        else:
            yield passed("hook_call", f"{name} is async and accepts event and data")
