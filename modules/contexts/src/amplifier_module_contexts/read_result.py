"""The tool `read_result`: brings back parts of a result that was put aside."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

from amplifier_core.effects import Effect
from amplifier_core.models import ToolResult
from amplifier_kit.tool_failure import tool_failure
from amplifier_module_contexts.blobs import Blobs
from amplifier_module_contexts.spill import TOOL_NAME

_LINES = 200
_MOST_CHARS = 16_000
# The line above the text must fit too, or the answer would be put aside itself.
_HEADER_CHARS = 400
_RANGE = re.compile(r"(chars:)?\s*(\d{1,15})\s*(?:-\s*(\d{1,15}))?")


class ReadResultTool:
    """Reads lines, or characters, of a text by its handle; at most `limit` characters at once."""

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
    # Whatever it shows again was a tool's result before.
    network = False

    __slots__ = ("_blobs", "_limit")

    def __init__(self, blobs: Blobs, spill_chars: int) -> None:
        self._blobs = blobs
        self._limit = min(_MOST_CHARS, spill_chars - _HEADER_CHARS)

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Return the part, under a line that says which it is and what comes next."""
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
