"""The answer that still arrives: shown by whole words, block by block, and kept before it shows."""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import get_character_cell_size

from amplifier_cli.render.items import Answer, Item, Thinking
from amplifier_cli.render.markdown import split_blocks

Keep = Callable[[dict[str, object]], None]
"""Writes words to the log; what it has not taken is not shown."""


class LiveText:
    """The text of one block of a model's answer, from its first word to its last."""

    def __init__(self, kind: str, request_id: str, keep: Keep) -> None:
        self.kind = kind
        self.request_id = request_id
        self._keep = keep
        self._text = ""
        self._kept = 0
        self._printed = 0

    def add(self, fragment: str) -> None:
        """Take more text; nothing of it shows before `advance`."""
        self._text += fragment

    @property
    def text(self) -> str:
        """All that was kept so far."""
        return self._text[: self._kept]

    @property
    def tail(self) -> str:
        """What is kept and not yet on the scrollback."""
        return self._text[self._printed : self._kept]

    def advance(self) -> list[Item]:
        """Keep the words that are complete and return the blocks that are finished."""
        self._keep_until(_end_of_words(self._text))
        if self.kind == "thinking":
            return []
        finished, rest = split_blocks(self.tail)
        self._printed = self._kept - len(rest)
        return [Answer(block) for block in finished if block.strip()]

    def finish(self) -> list[Item]:
        """Keep everything and return what was not returned yet."""
        self._keep_until(len(self._text))
        items = [] if self.kind == "thinking" else self.advance()
        tail = self.tail
        self._printed = self._kept
        if not tail.strip():
            return items
        if self.kind == "thinking":
            return [Thinking(tail)]
        return [*items, Answer(tail.strip("\n"))]

    def _keep_until(self, end: int) -> None:
        if end <= self._kept:
            return
        begins = {"begins": True} if self._kept == 0 else {}
        words = {"text": self._text[self._kept : end], **begins}
        self._keep({"request_id": self.request_id, "block_type": self.kind, **words})
        self._kept = end


def _end_of_words(text: str) -> int:
    """Return where the last complete word ends: half a word may be half a secret.

    In writing without blanks every wide character is a word.
    """
    for end in range(len(text), 0, -1):
        last = text[end - 1]
        if last.isspace() or get_character_cell_size(last) > 1:
            return end
    return 0
