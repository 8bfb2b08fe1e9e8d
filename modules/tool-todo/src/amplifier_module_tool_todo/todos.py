"""The to-dos of a session, stored in its state."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.notices import show

State = Literal["pending", "in_progress", "done"]

_MARKS: dict[State, str] = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}
_MOST_ITEMS = 100
_LONGEST_TEXT = 500


def _in_one_line(text: str) -> str:
    line = " ".join(text.split())
    if not line:
        raise ValueError("must not be empty")
    return line


class Item(BaseModel):
    """One thing to do."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    text: Annotated[str, Field(max_length=_LONGEST_TEXT), AfterValidator(_in_one_line)]
    state: State = "pending"


def _one_at_a_time(items: list[Item]) -> list[Item]:
    if sum(item.state == "in_progress" for item in items) > 1:
        raise ValueError("only one item may be in_progress")
    # The ledger identifies to-dos by their text.
    if len({item.text for item in items}) < len(items):
        raise ValueError("two items have the same text")
    return items


class TodoList(BaseModel):
    """The whole list, in the order in which it is to be done; None leaves it as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    todos: (
        Annotated[list[Item], Field(max_length=_MOST_ITEMS), AfterValidator(_one_at_a_time)] | None
    ) = None


INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "todos": {
            "type": "array",
            "description": "The whole new list, in order. Leave it out to read the list.",
            "maxItems": _MOST_ITEMS,
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "maxLength": _LONGEST_TEXT},
                    "state": {"type": "string", "enum": list(_MARKS), "default": "pending"},
                },
                "required": ["text"],
                "additionalProperties": False,
            },
        }
    },
    "additionalProperties": False,
}


def rendered(items: list[Item]) -> str:
    """Return the list as a model reads it."""
    if not items:
        return "The list is empty."
    done = sum(item.state == "done" for item in items)
    lines = [f"{_MARKS[item.state]} {item.text}" for item in items]
    return "\n".join((f"{done} of {len(items)} done:", *lines))


SOURCE = "tool-todo"
CHANGED = "todo:changed"
UNREADABLE = "todo:unreadable"

_KEY = "todos"
_SET_ASIDE = "todos_unreadable"


class Todos:
    """Reads and replaces the list in `session_state`, which the app restores with a session."""

    def __init__(self, coordinator: ModuleCoordinator) -> None:
        self._coordinator = coordinator

    async def read(self) -> list[Item]:
        """Return the list; an invalid one is moved to another key, and that is announced."""
        # An app restores the state, so it need not be what this module has written.
        state = self._coordinator.session_state
        try:
            return TodoList(todos=state.get(_KEY)).todos or []
        except ValidationError:
            state[_SET_ASIDE] = state.pop(_KEY)
            reason = f"The to-do list could not be read; it is kept as `{_SET_ASIDE}`."
            await self._tell(UNREADABLE, reason)
            return []

    async def replace(self, items: list[Item]) -> None:
        """Replace the list by `items`."""
        before = await self.read()
        dumped = [item.model_dump() for item in items]
        self._coordinator.session_state[_KEY] = dumped
        if items != before:
            await self._coordinator.hooks.emit(CHANGED, {"todos": dumped})

    async def _tell(self, event: str, reason: str) -> None:
        show(self._coordinator, reason, source=SOURCE)
        await self._coordinator.hooks.emit(event, {"reason": reason})
