"""Text from outside, made valid: whatever comes in can be stored, sent and read again."""

from __future__ import annotations

import operator
import re
from math import isfinite
from typing import Any, TypeVar, cast

__all__ = ["MOST_LEVELS", "TextStream", "is_too_deep", "valid", "valid_text"]

T = TypeVar("T")

MOST_LEVELS = 100
"""How deep data may be nested. Pydantic writes 255 levels, Python calls 1,000 functions."""

# JSON can spell half of a surrogate pair, UTF-8 cannot. PostgreSQL stores no NUL.
_INVALID = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]|\x00")
_SUSPECT = re.compile("[\ud800-\udfff\x00]")
_HALF_AT_THE_END = re.compile("[\ud800-\udbff]\\Z")
_TOO_DEEP = f"[left out: nested deeper than {MOST_LEVELS} levels]"


def valid_text(text: str) -> str:
    """Return a text that every encoding and every database accepts.

    Two halves of a character become the character, half of one becomes U+FFFD, and NUL becomes its
    picture, U+2400. A text without any of these comes back as the same object.
    """
    if text.isascii() and "\x00" not in text:
        # A hundred times faster than a pattern, and what most texts are.
        return text
    if _SUSPECT.search(text) is None:
        return text
    return _INVALID.sub(_replaced, text)


def valid(value: T) -> T:
    """Return data with every text in it valid: the same object when there is nothing to change.

    Dicts, lists, tuples and pydantic models are searched. Data nested deeper than `MOST_LEVELS`
    is replaced by a sentence, and a number that JSON does not have by its name.
    """
    return cast("T", _valid(value, MOST_LEVELS))


def is_too_deep(value: Any, levels: int = MOST_LEVELS) -> bool:
    """Whether data is nested deeper than `valid` leaves it."""
    if isinstance(value, dict):
        inner = list(cast("dict[Any, Any]", value).values())
    elif isinstance(value, list | tuple):
        inner = list(cast("list[Any]", value))
    else:
        return False
    return levels == 0 or any(is_too_deep(each, levels - 1) for each in inner)


class TextStream:
    """Makes streamed text valid; half of a surrogate pair waits for the next piece."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """Return the text that is complete so far."""
        text = self._half + text
        half = _HALF_AT_THE_END.search(text)
        self._half = "" if half is None else half[0]
        return valid_text(text[: len(text) - len(self._half)])

    def rest(self) -> str:
        """Return the replacement of a half that nothing followed, or an empty text."""
        half = self._half
        self._half = ""
        return valid_text(half)


def _replaced(found: re.Match[str]) -> str:
    text = found[0]
    if text == "\x00":
        return "\u2400"
    if len(text) == 1:
        return "\ufffd"
    high = ord(text[0])
    low = ord(text[1])
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _valid(value: Any, levels: int) -> Any:
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, float):
        if isfinite(value):
            return value
        return str(value)
    if isinstance(value, dict):
        look_into = _valid_dict
    elif isinstance(value, (list, tuple)):
        look_into = _valid_items
    elif hasattr(cast("Any", type(value)), "model_copy"):
        look_into = _valid_model
    else:
        return value
    if levels == 0:
        return _TOO_DEEP
    return look_into(cast("Any", value), levels - 1)


def _valid_dict(fields: dict[Any, Any], levels: int) -> dict[Any, Any]:
    changed: dict[Any, Any] = {}
    is_same = True
    for key, each in fields.items():
        new_key = valid_text(key) if isinstance(key, str) else key
        new = _valid(each, levels)
        is_same = is_same and new_key is key and new is each
        changed[new_key] = new
    return fields if is_same else changed


def _valid_items(items: list[Any] | tuple[Any, ...], levels: int) -> list[Any] | tuple[Any, ...]:
    changed = [_valid(each, levels) for each in items]
    if all(map(operator.is_, changed, items)):
        return items
    if isinstance(items, tuple):
        return tuple(changed)
    return changed


def _valid_model(model: Any, levels: int) -> Any:
    # Pydantic is not imported for this: commands that never call a model start without it.
    fields: dict[str, Any] = {**model.__dict__, **(model.__pydantic_extra__ or {})}
    changes: dict[str, Any] = {}
    for name, each in fields.items():
        if each is None:
            continue  # most fields of most models: saves a call for each
        new = _valid(each, levels)
        if new is not each:
            changes[name] = new
    if changes:
        return model.model_copy(update=changes)
    return model
