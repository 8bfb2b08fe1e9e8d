"""Emit the events of a context, and show messages about what is degraded."""

from __future__ import annotations

from typing import Any

from amplifier_core.hooks import HookRegistry
from amplifier_kit import notices


class Announcer:
    """Emits events, with a message for the user if something is degraded."""

    __slots__ = ("_coordinator", "_hooks", "_source")

    def __init__(self, hooks: HookRegistry | None, coordinator: Any, source: str) -> None:
        self._hooks = hooks
        self._coordinator = coordinator
        self._source = source

    async def tell(
        self,
        event: str,
        data: dict[str, Any],
        line: str | None = None,
        level: notices.Level = "warning",
    ) -> None:
        """Emit `event`, and show `line` if it is given."""
        if line is not None:
            notices.show(self._coordinator, line, level, source=self._source)
        if self._hooks is not None:
            await self._hooks.emit(event, data)
