"""Secrets in texts that arrive in pieces: none is given out that may be half of one."""

from __future__ import annotations

import re
import string
from collections.abc import Hashable
from typing import Any

from amplifier_core import events
from amplifier_kit.secrets.guesses import TELLING_NAME
from amplifier_kit.secrets.scrubber import Scrubber

# No secret is longer than this; what is held back longer is given out.
_LONGEST_HELD = 16_384
_SECRET_CHARS = string.ascii_letters + string.digits + string.punctuation
# Words that make a secret of the one that follows: `token = `, `Authorization: Basic `.
_INTRODUCTION = re.compile(
    rf"(?i:{TELLING_NAME}|authorization|bearer)\S{{0,4}}\s{{1,4}}(?:\S{{1,8}}\s{{1,4}}){{0,2}}\Z"
)
_LONGEST_INTRODUCTION = 64
_KEY_BEGINS = "-----BEGIN"
_KEY_ENDS = "-----END"

_STREAMS = frozenset(
    {
        "llm:stream_block_delta",
        "llm:stream_thinking_delta",
        events.CONTENT_BLOCK_DELTA,
        events.THINKING_DELTA,
        "tool:output",
    }
)
_ENDS = frozenset(
    {
        "llm:stream_block_end",
        "llm:stream_aborted",
        events.CONTENT_BLOCK_END,
        events.THINKING_FINAL,
        events.TOOL_POST,
        events.TOOL_ERROR,
        events.EXECUTION_END,
    }
)
_TEXT_FIELDS = ("text", "delta")
# What tells one stream from another, and which streams an event ends.
_IDENTITY = ("request_id", "block_index", "tool_call_id", "stream")


class _Stream:
    """One stream: the last event of it, and the end of its text so far."""

    __slots__ = ("data", "event", "field", "held")

    def __init__(self, event: str, field: str) -> None:
        self.event = event
        self.field = field
        self.data: dict[str, Any] = {}
        self.held = ""


class EventStreams:
    """The texts that events carry in pieces, scrubbed across the seams."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._streams: dict[Hashable, _Stream] = {}

    def feed(self, event: str, data: dict[str, Any]) -> dict[str, Any]:
        """Return the data of an event; of a stream's, with the text that is safe to give out."""
        field = _text_field(event, data)
        if field is None:
            return data
        key = (event, *(str(data.get(name)) for name in _IDENTITY))
        stream = self._streams.setdefault(key, _Stream(event, field))
        text = stream.held + data[field]
        seam = self._seam(text)
        stream.held = text[seam:]
        stream.data = data
        return {**data, field: self._scrubber.scrub_text(text[:seam])[0]}

    def end(self, event: str, data: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """Return the events that give out what is held of the streams that an event ends."""
        if event not in _ENDS or not self._streams:
            return []
        is_last = event == events.EXECUTION_END
        ended = [
            key
            for key, stream in self._streams.items()
            if is_last or _belong_together(stream.data, data)
        ]
        return [self._rest(self._streams.pop(key)) for key in ended if self._holds(key)]

    def _holds(self, key: Hashable) -> bool:
        if self._streams[key].held:
            return True
        del self._streams[key]
        return False

    def _rest(self, stream: _Stream) -> tuple[str, dict[str, Any]]:
        text, _ = self._scrubber.scrub_text(stream.held)
        rest: dict[str, Any] = {**stream.data, stream.field: text}
        if isinstance(rest.get("sequence"), int):
            rest["sequence"] += 1
        return stream.event, rest

    def _seam(self, text: str) -> int:
        """Return how much of a text can be given out; what follows may be half of a secret."""
        seam = len(text.rstrip(_SECRET_CHARS))
        if said := _INTRODUCTION.search(text, max(0, seam - _LONGEST_INTRODUCTION), seam):
            seam = said.start()
        begins = text.rfind(_KEY_BEGINS)
        if begins >= 0 and _KEY_ENDS not in text[begins:]:
            seam = min(seam, begins)
        for value in self._scrubber.known:
            if value.rstrip(_SECRET_CHARS):
                seam = _half_of(value, text[:seam])
        if len(text) - seam <= _LONGEST_HELD:
            return seam
        return len(text)


def _text_field(event: str, data: dict[str, Any]) -> str | None:
    if event not in _STREAMS:
        return None
    return next((name for name in _TEXT_FIELDS if isinstance(data.get(name), str)), None)


def _belong_together(stream: dict[str, Any], end: dict[str, Any]) -> bool:
    """Whether an event that ends something speaks of this stream."""
    shared = [name for name in _IDENTITY if name in stream and name in end]
    return bool(shared) and all(stream[name] == end[name] for name in shared)


def _half_of(value: str, text: str) -> int:
    """Return where the first half of a value begins with which `text` ends; its length if none."""
    for length in range(min(len(value) - 1, len(text)), 0, -1):
        if text.endswith(value[:length]):
            return len(text) - length
    return len(text)
