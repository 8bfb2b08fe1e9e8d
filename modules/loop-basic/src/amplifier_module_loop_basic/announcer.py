"""Telling the hooks what the loop does, and hearing what they want."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_core.models import HookResult
from amplifier_module_loop_basic.injections import Injections

NAME = "loop-basic"


class Announcer:
    """The way from the loop to the hooks and back."""

    __slots__ = ("_coordinator", "_hooks", "hears", "pending")

    def __init__(self, hooks: Any, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._hooks = hooks
        # An event that nobody listens to costs more to announce than to ask about.
        self.hears: Callable[[str], bool] = getattr(hooks, "has_handlers", lambda event: True)
        self.pending: Injections | None = None

    @property
    def injections(self) -> Injections:
        """What waits for the next request."""
        self.pending = self.pending or Injections()
        return self.pending

    async def tell(self, event: str, data: dict[str, Any]) -> None:
        """Announce something that is not open to objection."""
        if self.hears(event):
            await self._hooks.emit(event, data)

    async def ask(self, event: str, data: dict[str, Any]) -> HookResult:
        """Announce, have the hooks' wishes carried out, and return what is left to act on."""
        result: HookResult = await self._hooks.emit(event, data)
        if self._coordinator is not None:
            result = await self._coordinator.process_hook_result(result, event, NAME)
        elif result.action == "ask_user":
            return HookResult(action="deny", reason="No approval system available")
        if result.action == "inject_context":
            self.injections.take(result)
        return result
