"""Blobs: whole texts by handle, each stored once."""

from __future__ import annotations

import hashlib
from typing import Protocol


class Blobs(Protocol):
    """A place for texts that are too large for a conversation."""

    async def put(self, text: str) -> str:
        """Store `text` and return its handle; the same text has the same handle."""
        ...

    async def get(self, handle: str) -> str | None:
        """Return the text, or None when it is not, or no longer, there."""
        ...


def handles_for(text: str) -> tuple[str, str]:
    """Return the handle of a text, and a longer one should the first belong to another text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"result-{digest[:12]}", f"result-{digest}"


class MemoryBlobs:
    """Texts in memory, at most `limit_bytes` of them; the oldest go first.

    `dropped` holds the handles that went since somebody last took them from there.
    """

    __slots__ = ("_limit", "_texts", "_used", "dropped")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._used = 0
        self._texts: dict[str, str] = {}
        self.dropped: list[str] = []

    async def put(self, text: str) -> str:
        """Store `text`; a text that is stored already becomes the newest."""
        short, long = handles_for(text)
        handle = short if self._texts.get(short, text) == text else long
        if self._texts.pop(handle, None) is None:
            self._used += _bytes(text)
        self._texts[handle] = text
        while self._used > self._limit and len(self._texts) > 1:
            oldest = next(iter(self._texts))
            self._used -= _bytes(self._texts.pop(oldest))
            self.dropped.append(oldest)
        return handle

    async def get(self, handle: str) -> str | None:
        """Return the text, or None when it was dropped or never there."""
        return self._texts.get(handle)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
