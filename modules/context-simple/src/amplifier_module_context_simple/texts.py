"""The texts of a message that can be cut: visibly, and without touching the message itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

_NOTE = "\n[... {} characters left out ...]\n"
_NOTE_LENGTH = len(_NOTE) + 12

# No text is cut to less: there must be room for the note and a few words.
SHORTEST = 64

# What is text in a content block. Calls, thinking, pictures and whatever else has a type of its
# own stay: a vendor takes them back whole or not at all.
_TEXT_FIELDS = {"text": ("text",), "tool_result": ("output", "content")}


def shorten(text: str, limit: int) -> str:
    """Return `text` in at most `limit` characters: its head, a note, its tail."""
    if len(text) <= limit:
        return text
    kept = limit - _NOTE_LENGTH
    tail = kept // 3
    return text[: kept - tail] + _NOTE.format(len(text) - kept) + text[len(text) - tail :]


def shorten_texts(message: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return `message` with none of its texts longer than `limit`; itself when none was."""
    content: Any = message.get("content")
    edited = _edit(content, lambda text: shorten(text, limit))
    return message if edited == content else {**message, "content": edited}


def text_lengths(message: dict[str, Any]) -> list[int]:
    """Return the length of every text in `message` that `shorten_texts` could cut."""
    texts: list[str] = []
    _edit(message.get("content"), lambda text: texts.append(text) or text)
    return [len(text) for text in texts]


def _edit(value: Any, edit: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return edit(value)
    if isinstance(value, list):
        return [_edit(each, edit) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        keys = _TEXT_FIELDS.get(str(fields["type"]), ()) if "type" in fields else (*fields,)
        return {**fields, **{key: _edit(fields[key], edit) for key in keys if key in fields}}
    return value
