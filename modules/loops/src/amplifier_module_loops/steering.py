"""Text that reaches a turn while it runs."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from amplifier_kit.valid_text import valid_text


class Inbox:
    """Keeps texts in the order they arrive, until each is stored: never lost, never twice."""

    __slots__ = ("_storing", "_texts")

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._storing: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: str) -> None:
        """Keep `text` for the next step; returns at once. Blank text is not kept."""
        if text.strip():
            self._texts.append(valid_text(text))

    async def deliver(self, context: Any) -> str | None:
        """Store the oldest text as a message of the user and return it; None when none waits.

        Storing is not cancelled together with the caller, for nobody could tell then whether it
        happened; the next delivery begins with the outcome of this one.
        """
        if not self._texts:
            return None
        storing = self._storing
        if storing is None:
            message = {"role": "user", "content": self._texts[0]}
            storing = self._storing = asyncio.ensure_future(_stored(context, message))
        try:
            await asyncio.shield(storing)
        finally:
            if storing.done():
                self._storing = None
        return self._texts.popleft()


async def _stored(context: Any, message: dict[str, Any]) -> None:
    await context.add_message(message)
