"""Spilling: a large tool result goes to a blob; its head, its tail and a handle stay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from amplifier_kit.texts import edit_texts, texts_in
from amplifier_module_contexts.blobs import Blobs

TOOL_NAME = "read_result"

# What stays of a large text, in characters.
_HEAD = 3_000
_TAIL = 1_000
# The handle stands first: whatever shortens the text further keeps its beginning.
_NOTE = (
    "[{handle}: a result of {chars} characters in {lines} lines. Shown are its first {head} and "
    'last {tail} characters; {tool}(handle="{handle}", range="1-200") reads lines of the rest.]\n'
)
_GAP = "\n[... {chars} characters, {lines} line ends left out ...]\n"


class Spilled(NamedTuple):
    """One text that was put aside."""

    handle: str
    characters: int


class Spill:
    """Puts the texts of tool results that are longer than `limit` characters into blobs.

    With `clean`, what it returns of a text takes the text's place: before any cut, which might
    leave half of what is to be cleaned away.
    """

    __slots__ = ("_clean", "_limit", "blobs")

    def __init__(self, blobs: Blobs, limit: int, clean: Callable[[str], str] | None = None) -> None:
        self.blobs = blobs
        self._limit = limit
        self._clean = clean

    async def reduce(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[Spilled]]:
        """Return the message with excerpts in place of large texts, and what was put aside.

        The message itself is not touched, and comes back when nothing in it is large.
        """
        large = [text for text in _result_texts(message) if len(text) > self._limit]
        if not large:
            return message, []
        excerpts: dict[str, str] = {}
        spilled: list[Spilled] = []
        for text in dict.fromkeys(large):
            if self._clean is None:
                kept = text
            else:
                kept = await asyncio.to_thread(self._clean, text)
            handle = await self.blobs.put(kept)
            excerpts[text] = _excerpt(kept, handle, self._limit)
            spilled.append(Spilled(handle, len(kept)))
        content = _edit_results(message, lambda text: excerpts.get(text, text))
        return {**message, "content": content}, spilled


def _excerpt(text: str, handle: str, limit: int) -> str:
    head = min(_HEAD, limit // 2)
    tail = min(_TAIL, limit // 8)
    middle = text[head : len(text) - tail]
    note = _NOTE.format(
        handle=handle,
        chars=len(text),
        lines=text.count("\n") + 1,
        head=head,
        tail=tail,
        tool=TOOL_NAME,
    )
    gap = _GAP.format(chars=len(middle), lines=middle.count("\n"))
    return f"{note}{text[:head]}{gap}{text[-tail:]}"


def _result_texts(message: dict[str, Any]) -> list[str]:
    if message.get("role") == "tool":
        return texts_in(message.get("content"))
    return [text for block in _result_blocks(message) for text in texts_in(block)]


def _edit_results(message: dict[str, Any], edit: Callable[[str], str]) -> Any:
    content: Any = message.get("content")
    if message.get("role") == "tool":
        return edit_texts(content, edit)
    results = [id(block) for block in _result_blocks(message)]
    return [edit_texts(block, edit) if id(block) in results else block for block in content]


def _result_blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content: Any = message.get("content")
    if isinstance(content, list):
        blocks = cast("list[Any]", content)
    else:
        blocks = []
    return [
        block
        for block in blocks
        if isinstance(block, dict) and block.get("type") == "tool_result"  # pyright: ignore[reportUnknownMemberType] - stored by others
    ]
