"""Move large tool results out of the conversation, and read them back."""

from __future__ import annotations

import asyncio
import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from amplifier_core.effects import Effect
from amplifier_core.models import ToolResult
from amplifier_kit.durable_files import make_private_folder, write_whole
from amplifier_kit.texts import edit_texts, texts_in
from amplifier_kit.tools import tool_failure


class Blobs(Protocol):
    """A store for texts that are too large for a conversation."""

    async def put(self, text: str) -> str:
        """Store `text` and return its handle; the same text has the same handle."""
        ...

    async def get(self, handle: str) -> str | None:
        """Return the text, or None if it does not exist or was dropped."""
        ...


def handles_for(text: str) -> tuple[str, str]:
    """Return a short handle of a text, and a long one in case the short one collides."""
    # Lone surrogates are legal in a JSON string, and plain UTF-8 cannot encode them.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"result-{digest[:12]}", f"result-{digest}"


class MemoryBlobs:
    """Texts in memory, at most `limit_bytes`; the oldest are dropped first.

    `dropped` has the handles of dropped texts until the caller removes them.
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
        # The newest text stays even if it alone exceeds the limit: its handle is being returned.
        while self._used > self._limit and len(self._texts) > 1:
            oldest = next(iter(self._texts))
            self._used -= _bytes(self._texts.pop(oldest))
            self.dropped.append(oldest)
        return handle

    async def get(self, handle: str) -> str | None:
        """Return the text, or None if it was dropped or never stored."""
        return self._texts.get(handle)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


_HANDLE = re.compile(r"result-[0-9a-f]{12,64}")


class FileBlobs:
    """Texts in files, on disk before `put` returns."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, text: str) -> str:
        """Store `text`, unless it is stored already."""
        return await asyncio.to_thread(self._put, text)

    async def get(self, handle: str) -> str | None:
        """Return the text, or None if there is no such file."""
        return await asyncio.to_thread(self._get, handle)

    def _put(self, text: str) -> str:
        short, long = handles_for(text)
        handle = short if self._get(short) in (None, text) else long
        if self._get(handle) is None:
            make_private_folder(self._folder)
            write_whole(self._folder / handle, text.encode("utf-8", "surrogatepass"))
        return handle

    def _get(self, handle: str) -> str | None:
        # A handle comes from a model and must not name a file outside the folder.
        if not _HANDLE.fullmatch(handle):
            return None
        try:
            return (self._folder / handle).read_bytes().decode("utf-8", "surrogatepass")
        except FileNotFoundError:
            return None


TOOL_NAME = "read_result"

# Length of the excerpt that stays in the conversation, in characters.
_HEAD = 3_000
_TAIL = 1_000
# The handle comes first, because a further cut keeps the beginning of the text.
_NOTE = (
    "[{handle}: a result of {chars} characters in {lines} lines. Shown are its first {head} and "
    'last {tail} characters; {tool}(handle="{handle}", range="1-200") reads lines of the rest.]\n'
)
_GAP = "\n[... {chars} characters, {lines} line ends left out ...]\n"


class Spilled(NamedTuple):
    """One text that was moved out."""

    handle: str
    characters: int


class Spill:
    """Moves texts of tool results that are longer than `limit` characters into blobs.

    `clean` is applied before the text is cut: half of a secret would not be recognized.
    """

    __slots__ = ("_clean", "blobs", "limit")

    def __init__(self, blobs: Blobs, limit: int, clean: Callable[[str], str] | None = None) -> None:
        self.blobs = blobs
        self.limit = limit
        self._clean = clean

    async def reduce(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[Spilled]]:
        """Return the message with excerpts instead of large texts, and what was moved out.

        The message is not changed; if it has no large texts, it is returned itself.
        """
        large = [text for text in _result_texts(message) if len(text) > self.limit]
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
            excerpts[text] = _excerpt(kept, handle, self.limit)
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


_LINES = 200
_MOST_CHARS = 16_000
# Room for the header: with it, the result has to stay below the limit for spilling.
_HEADER_CHARS = 400
_RANGE = re.compile(r"(chars:)?\s*(\d{1,15})\s*(?:-\s*(\d{1,15}))?")


class ReadResultTool:
    """Reads lines or characters of a text by its handle, at most `limit` characters per call."""

    name = TOOL_NAME
    description = (
        "Read a part of a large tool result that the conversation shows only in excerpts. Give the "
        "handle from the excerpt and a range: lines, as in 100-250, counted from 1; or characters, "
        f"as in chars:0-5000, counted from 0. Without a range: the first {_LINES} lines."
    )
    input_schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "For example result-1a2b3c4d5e6f."},
            "range": {"type": "string", "description": "For example 100-250 or chars:0-5000."},
        },
        "required": ["handle"],
    }
    effect: Effect = "pure"
    deadline_seconds = 30.0
    output_trusted = False
    # It only shows again what a tool has returned before.
    network = False

    __slots__ = ("_blobs", "_limit")

    def __init__(self, blobs: Blobs, spill_chars: int) -> None:
        self._blobs = blobs
        self._limit = min(_MOST_CHARS, spill_chars - _HEADER_CHARS)

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Return the part, below a header with its position and the next range."""
        handle = input.get("handle")
        wanted = input.get("range") or f"1-{_LINES}"
        if not isinstance(handle, str) or not isinstance(wanted, str):
            return tool_failure("`handle` must be a text, and so must `range`.")
        text = await self._blobs.get(handle)
        if text is None:
            return tool_failure(f"There is no result `{handle}`, or it is no longer kept.")
        match = _RANGE.fullmatch(wanted.strip())
        if match is None:
            return tool_failure(
                f"Cannot read the range `{wanted}`. Give lines as in 100-250, or characters as in "
                "chars:0-5000."
            )
        first = int(match[2])
        last = int(match[3] or match[2])
        ends = [0, *(found.end() for found in re.finditer("\n", text))]
        if ends[-1] != len(text):
            ends.append(len(text))
        start, end = (first, last) if match[1] else _span_of_lines(ends, first, last)
        if start >= min(end, len(text)):
            return tool_failure(
                f"Nothing at `{wanted}`: {handle} has {len(ends) - 1} lines, {len(text)} chars."
            )
        return ToolResult(output=self._part(handle, text, ends, start, end))

    def _part(self, handle: str, text: str, ends: list[int], start: int, end: int) -> str:
        stop = min(end, len(text), start + self._limit)
        lines = f"{bisect_right(ends, start)}-{bisect_right(ends, stop - 1)}"
        header = f"{handle}: characters {start}-{stop} of {len(text)}, lines {lines} of "
        header += f"{len(ends) - 1}"
        if stop < len(text):
            header += f'; next: range="chars:{stop}-{min(stop + self._limit, len(text))}"'
        return f"[{header}]\n{text[start:stop]}"


def _span_of_lines(ends: list[int], first: int, last: int) -> tuple[int, int]:
    """Return the characters from the beginning of one line to the end of another."""
    count = len(ends) - 1
    if first < 1 or first > count:
        return 0, 0
    return ends[first - 1], ends[min(last, count)] if last >= first else 0
