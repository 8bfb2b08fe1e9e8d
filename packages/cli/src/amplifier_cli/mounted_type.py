"""What a module mounts on a double, and what that says about its type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_core.interfaces import ContextManager, Orchestrator, Provider, Tool
from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.base import ModuleValidator, ValidationCheck

__all__ = ["Trial", "try_mounting"]

_MOUNT_POINTS = {
    "orchestrator": "orchestrator",
    "context": "context",
    "providers": "provider",
    "tools": "tool",
}
_PROTOCOLS: dict[str, Any] = {
    "provider": Provider,
    "tool": Tool,
    "orchestrator": Orchestrator,
    "context": ContextManager,
}


class Trial(NamedTuple):
    """The types of what a package mounted, the likeliest first, or why it could not be mounted."""

    types: tuple[str, ...]
    fault: str | None


async def try_mounting(
    package: Path, entry_point: str | None = None, config: dict[str, Any] | None = None
) -> Trial:
    """Mount a package without credentials and without a network, and look at what came."""
    mounting = _Mounting()
    result = await mounting.validate(package, entry_point, config)
    faults = (each.message for each in result.checks if not each.passed)
    return Trial(mounting.types, next(faults, None))


class _Mounting(ModuleValidator):
    """Mounts as every validator does, and looks at all mount points instead of one."""

    module_type = "hook"
    protocol_name = "HookHandler"
    thing = "module"

    def __init__(self) -> None:
        self.types: tuple[str, ...] = ()

    def check_mounted(
        self, coordinator: MockCoordinator, returned: Any
    ) -> Iterator[ValidationCheck]:
        """Take note of the types, and find fault with nothing."""
        filled = [
            kind
            for point, kind in _MOUNT_POINTS.items()
            if coordinator.get(point) not in (None, {})
        ]
        fitting = [kind for kind, each in _PROTOCOLS.items() if isinstance(returned, each)]
        # Last: a module that mounts something may register hooks as well.
        if any(coordinator.hooks.list_handlers().values()):
            hooks = ["hook"]
        else:
            hooks = []
        self.types = (*filled, *fitting, *hooks)
        yield from ()
