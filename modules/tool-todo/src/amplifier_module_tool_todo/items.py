"""A to-do list: what may be in it, and how a model reads it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

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
