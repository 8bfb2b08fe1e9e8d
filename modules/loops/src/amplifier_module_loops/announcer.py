"""Telling the hooks and the person what the loop does, and hearing what they want."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from amplifier_core.models import HookResult
from amplifier_module_loops.injections import Injections

logger = logging.getLogger(__name__)


def _yes(event: str) -> bool:
    return True


class Announcer:
    """The way from a loop to the hooks and back; `name` is the loop's."""

    __slots__ = ("_coordinator", "_hooks", "hears", "name", "pending")

    def __init__(self, name: str, hooks: Any, coordinator: Any) -> None:
        self.name = name
        self._coordinator = coordinator
        self._hooks = hooks
        # An event that nobody listens to costs more to announce than to ask about.
        self.hears: Callable[[str], bool] = getattr(hooks, "has_handlers", _yes)
        self.pending: Injections | None = None

    @property
    def injections(self) -> Injections:
        """What waits for the next request."""
        self.pending = self.pending or Injections()
        return self.pending

    async def tell(self, event: str, data: dict[str, Any]) -> dict[str, Any]:
        """Announce something that is not open to objection; returns what the hooks leave of it."""
        if not self.hears(event):
            return data
        answer = await self._hooks.emit(event, data)
        if answer.action == "deny":
            return {}
        if answer.data is None:
            return data
        return answer.data

    async def ask(self, event: str, data: dict[str, Any]) -> HookResult:
        """Announce, have the hooks' wishes carried out, and return what is left to act on."""
        return await self.carry_out(event, await self._hooks.emit(event, data))

    async def carry_out(self, event: str, wanted: HookResult) -> HookResult:
        """Do what `wanted` asks for; without a coordinator every question is answered with no."""
        result = wanted
        if self._coordinator is not None:
            result = await self._coordinator.process_hook_result(wanted, event, self.name)
        elif wanted.action == "ask_user":
            return HookResult(action="deny", reason="No approval system available")
        if result.action == "inject_context":
            self.injections.take(result)
        return result

    async def warn(self, event: str, data: dict[str, Any], line: str) -> None:
        """Announce something that went another way than was asked, and show it to the person."""
        await self.tell(event, data)
        if getattr(self._coordinator, "display_system", None) is None:
            logger.warning("%s: %s", self.name, line)
            return
        shown = HookResult(
            user_message=line, user_message_level="warning", user_message_source=self.name
        )
        await self._coordinator.process_hook_result(shown, event, self.name)
