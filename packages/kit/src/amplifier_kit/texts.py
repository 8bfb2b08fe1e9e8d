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
    edited = edit_texts(content, lambda text: shorten(text, limit))
    if edited == content:
        return message
    return {**message, "content": edited}


def text_lengths(message: dict[str, Any]) -> list[int]:
    """Return the length of every text in `message` that `shorten_texts` could cut."""
    return [len(text) for text in texts_in(message.get("content"))]


def texts_in(content: Any) -> list[str]:
    """Return every text of a message's content that `edit_texts` would present."""
    texts: list[str] = []
    edit_texts(content, lambda text: texts.append(text) or text)
    return texts


def edit_texts(content: Any, edit: Callable[[str], str]) -> Any:
    """Return `content` with each of its texts as `edit` returns it."""
    if isinstance(content, str):
        return edit(content)
    if isinstance(content, list):
        return [edit_texts(each, edit) for each in cast("list[Any]", content)]
    if isinstance(content, dict):
        fields = cast("dict[str, Any]", content)
        if "type" in fields:
            keys = _TEXT_FIELDS.get(str(fields["type"]), ())
        else:
            keys = (*fields,)
        return {**fields, **{key: edit_texts(fields[key], edit) for key in keys if key in fields}}
    return content


class ShortForms:
    """Shortened messages: the same object for the same message and limit, from view to view."""

    def __init__(self) -> None:
        # The message itself is kept with its short form, so that its id is not given away.
        self._now: dict[tuple[int, int], tuple[dict[str, Any], dict[str, Any]]] = {}
        self._before = self._now

    def begin_view(self) -> None:
        """Forget what the view before the last one needed."""
        self._before = self._now
        self._now = {}

    def of(self, message: dict[str, Any], limit: int) -> dict[str, Any]:
        """Return `message` with none of its texts longer than `limit`; itself when none was."""
        key = (id(message), limit)
        kept = self._now.get(key) or self._before.get(key)
        if kept is None:
            kept = (message, shorten_texts(message, limit))
        self._now[key] = kept
        return kept[1]
