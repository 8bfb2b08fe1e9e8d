"""The type of a module, inferred from what it mounts on a double."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amplifier_core.interfaces import ContextManager, Orchestrator, Provider, Tool
from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.base import ModuleValidator, ValidationCheck

__all__ = ["type_by_mounting"]

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


async def type_by_mounting(
    package: Path, entry_point: str | None = None, config: dict[str, Any] | None = None
) -> str | None:
    """Return the type of a package, mounted without credentials and network; None if unclear."""
    mounting = _Mounting()
    await mounting.validate(package, entry_point, config)
    return mounting.found


class _Mounting(ModuleValidator):
    """Mounts as every validator does, and looks at all mount points instead of one."""

    module_type = "hook"
    protocol_name = "HookHandler"
    thing = "module"

    def __init__(self) -> None:
        self.found: str | None = None

    def check_mounted(
        self, coordinator: MockCoordinator, returned: Any
    ) -> Iterator[ValidationCheck]:
        """Take note of the type, and find fault with nothing."""
        filled = (
            kind
            for point, kind in _MOUNT_POINTS.items()
            if coordinator.get(point) not in (None, {})
        )
        fitting = (kind for kind, each in _PROTOCOLS.items() if isinstance(returned, each))
        # A module that mounts something may register hooks as well: that is not its type.
        hooks = "hook" if any(coordinator.hooks.list_handlers().values()) else None
        self.found = next(filled, None) or next(fitting, None) or hooks
        yield from ()
