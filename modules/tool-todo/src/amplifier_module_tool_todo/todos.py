"""The to-dos of a session: in its state, and the open ones in the ledger of its context."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.notices import show
from amplifier_module_tool_todo.items import Item, TodoList

logger = logging.getLogger(__name__)

SOURCE = "tool-todo"
CHANGED = "todo:changed"
UNREADABLE = "todo:unreadable"
NOT_IN_LEDGER = "todo:not_in_ledger"

_KEY = "todos"
_SET_ASIDE = "todos_unreadable"


class Todos:
    """Reads and replaces the list in `session_state`, so that it is the app's to restore."""

    def __init__(self, coordinator: ModuleCoordinator) -> None:
        self._coordinator = coordinator

    async def read(self) -> list[Item]:
        """Return the list; one that cannot be read is set aside, and that is said."""
        state = self._coordinator.session_state
        try:
            return TodoList(todos=state.get(_KEY)).todos or []
        except ValidationError:
            state[_SET_ASIDE] = state.pop(_KEY)
            reason = f"The to-do list could not be read; it is kept as `{_SET_ASIDE}`."
            await self._tell(UNREADABLE, reason)
            return []

    async def replace(self, items: list[Item]) -> None:
        """Put `items` in place of the list."""
        before = await self.read()
        dumped = [item.model_dump() for item in items]
        self._coordinator.session_state[_KEY] = dumped
        if items != before:
            await self._coordinator.hooks.emit(CHANGED, {"todos": dumped})
        await self.keep_in_ledger(before, items)

    async def keep_in_ledger(self, before: list[Item], items: list[Item]) -> None:
        """Bring the ledger up to date, if the context has one."""
        ledger: Any = self._coordinator.get_capability("context.ledger")
        if ledger is None:
            return
        still_open = [item.text for item in items if item.state != "done"]
        try:
            kept: list[str] = ledger.entries()["todo"]
            for item in before:
                if item.text in kept and item.text not in still_open:
                    ledger.add("done", item.text)
            for text in still_open:
                if text not in kept:
                    ledger.add("todo", text)
        except Exception:
            # The ledger is another module's; the list itself is kept.
            logger.exception("ledger failed")
            await self._tell(NOT_IN_LEDGER, "The context's ledger did not take the to-do list.")

    async def _tell(self, event: str, reason: str) -> None:
        show(self._coordinator, reason, source=SOURCE)
        await self._coordinator.hooks.emit(event, {"reason": reason})
