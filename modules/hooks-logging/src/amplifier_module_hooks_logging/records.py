"""Render events as lines: free of secrets, cut to size, numbered."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

from amplifier_kit.secrets.scrubber import EventStreams, Scrubber
from amplifier_module_hooks_logging.config import LoggingConfig

logger = logging.getLogger(__name__)

SCHEMA_VERSION = 1

# Characters kept beyond a cut until secrets are blanked, so that none is cut in half and missed.
MARGIN_CHARS = 16_384
_HARDER = 16
_MOST_ITEMS = 1_000
_DEEPEST = 32
_ENVELOPE_BYTES = 512


Item = TypeVar("Item")


class Entry(NamedTuple):
    """An event to be written; `sequence` counts from the start of this process."""

    sequence: int
    event: str
    session_id: str
    parent_id: str | None
    timestamp: str
    data: dict[str, Any]


class Clip:
    """Cuts data to `left` characters in total, and each text in it to `text_chars`."""

    def __init__(self, left: int, text_chars: int) -> None:
        self.left = left
        self._text_chars = text_chars

    def cut(self, data: Any, depth: int = 0) -> Any:
        """Return a copy of JSON-safe data that is small enough."""
        if isinstance(data, str):
            return self._cut_text(data)
        if isinstance(data, dict):
            items = self._first(cast("dict[str, Any]", data).items(), depth)
            fields = {self._cut_text(key): self.cut(value, depth + 1) for key, value in items}
            missing = len(cast("dict[str, Any]", data)) - len(fields)
            if missing:
                return {**fields, "cut": f"[{missing} more fields]"}
            return fields
        if isinstance(data, list):
            values = self._first(cast("list[Any]", data), depth)
            kept = [self.cut(value, depth + 1) for value in values]
            missing = len(cast("list[Any]", data)) - len(kept)
            if missing:
                return [*kept, f"[{missing} more items]"]
            return kept
        self.left -= 1
        return data

    def _first(self, items: Iterable[Item], depth: int) -> Iterator[Item]:
        """Yield the items of a container as long as there is room."""
        for number, item in enumerate(items):
            if number >= _MOST_ITEMS or self.left <= 0 or depth >= _DEEPEST:
                return
            yield item

    def _cut_text(self, text: str) -> str:
        room = max(0, min(self._text_chars, self.left))
        missing = max(0, len(text) - room)
        self.left -= len(text) - missing + 1
        if missing:
            return f"{text[:room]} [{missing} more characters]"
        return text


class Renderer:
    """Renders entries as lines of JSON."""

    def __init__(self, scrubber: Scrubber, config: LoggingConfig) -> None:
        self._scrubber = scrubber
        self._streams = EventStreams(scrubber)
        self._config = config

    def render(self, entry: Entry, first_sequence: int) -> list[bytes]:
        """Return the line of an entry, after lines with the rest of the streams that it ends.

        Data that cannot be searched for secrets is withheld.
        """
        try:
            rest = self._streams.end(entry.event, entry.data)
            data = self._streams.feed(entry.event, entry.data)
            clean = [
                (event, self._scrubber.scrub(each)[0])
                for event, each in [*rest, (entry.event, data)]
            ]
        except Exception as error:
            logger.exception("event not searched for secrets, withheld event=%s", entry.event)
            reason = f"redaction failed: {type(error).__name__}"
            clean = [(entry.event, {"withheld": reason})]
        return [self._line(entry, event, data, first_sequence) for event, data in clean]

    def _line(self, entry: Entry, event: str, data: dict[str, Any], first_sequence: int) -> bytes:
        envelope: dict[str, Any] = {
            "v": SCHEMA_VERSION,
            "ts": entry.timestamp,
            "seq": first_sequence + entry.sequence,
            "session_id": entry.session_id,
            "parent_id": entry.parent_id,
            "event": event,
        }
        most = self._config.max_record_bytes
        line = b""
        # Characters are cut but bytes are limited: one may have four, or six when escaped.
        for divisor in (1, _HARDER, _HARDER**2):
            clip = Clip(
                (most - _ENVELOPE_BYTES) // divisor, self._config.max_value_chars // divisor
            )
            line = _dump({**envelope, "data": clip.cut(data)})
            if len(line) <= most:
                return line
        return _dump({**envelope, "data": {"cut": f"[a record of {len(line)} bytes]"}})


def _dump(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    # UTF-8 cannot encode a lone surrogate; its backslash form is also its escape in JSON.
    return text.encode("utf-8", "backslashreplace") + b"\n"
