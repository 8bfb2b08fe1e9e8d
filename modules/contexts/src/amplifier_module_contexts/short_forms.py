"""Shortened copies of messages; the messages themselves are not changed."""

from __future__ import annotations

from typing import Any

from amplifier_kit.texts import edit_texts, shorten, texts_in

__all__ = ["ShortForms", "shorten_texts", "text_lengths"]


def shorten_texts(message: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return `message` with its texts cut to `limit`; the same object if none was longer."""
    content: Any = message.get("content")
    edited = edit_texts(content, lambda text: shorten(text, limit))
    if edited == content:
        return message
    return {**message, "content": edited}


def text_lengths(message: dict[str, Any]) -> list[int]:
    """Return the length of every text in `message` that `shorten_texts` could cut."""
    return [len(text) for text in texts_in(message.get("content"))]


class ShortForms:
    """Shortened messages: the same object for the same message and limit, from view to view."""

    def __init__(self) -> None:
        # Keyed by `id`; the entry keeps the message alive, so that its id is not reused.
        self._now: dict[tuple[int, int], tuple[dict[str, Any], dict[str, Any]]] = {}
        self._before = self._now

    def begin_view(self) -> None:
        """Drop the forms that the last view did not use."""
        self._before = self._now
        self._now = {}

    def of(self, message: dict[str, Any], limit: int) -> dict[str, Any]:
        """Return `message` with its texts cut to `limit`; the same object if none was longer."""
        key = (id(message), limit)
        kept = self._now.get(key) or self._before.get(key)
        if kept is None:
            kept = (message, shorten_texts(message, limit))
        self._now[key] = kept
        return kept[1]
