"""Blanks secrets in texts, JSON data, and texts that events carry in pieces."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any, cast

from amplifier_core import events
from amplifier_kit.secrets.known import is_secret_field
from amplifier_kit.secrets.patterns import (
    ANCHORS,
    PATTERNS,
    TELLING_NAME,
    Pattern,
    blank_guesses,
    may_assign,
)

MARK_START = "[REDACTED:"

_GUESS = f"{MARK_START}assigned-secret]"
_FIELD = f"{MARK_START}secret-field]"

Opaque = Callable[[dict[str, Any]], Collection[str]]
"""Names the fields of a mapping in which only known values are blanked."""


def _nothing(fields: dict[str, Any]) -> Collection[str]:
    return ()


class Scrubber:
    """Blanks secrets that are known by their value or recognized by their form.

    Without `guesses`, a value is not blanked only because of the name it is assigned to.
    """

    def __init__(self, known: Mapping[str, str] | None = None, *, guesses: bool = True) -> None:
        self.known: Mapping[str, str] = {} if known is None else known
        self._guesses = guesses

    def scrub_text(self, text: str) -> tuple[str, Counter[str]]:
        """Return the text without its secrets, and how many of each kind there were."""
        found: Counter[str] = Counter()
        return self._search_for(text).blank(text, found), found

    def scrub(self, data: Any, opaque: Opaque = _nothing) -> tuple[Any, Counter[str]]:
        """Return JSON-safe data without its secrets, itself when there are none, and their kinds.

        Every text is searched, keys included, and the names of fields count. In `opaque` fields a
        pattern would match only by chance, so only known values are blanked there.
        """
        found: Counter[str] = Counter()
        # One pass over all texts together finds the few patterns that can match any of them.
        search = self._search_for("\n".join(_texts(data)))
        clean = search.scrubbed(data, found, opaque)
        return (clean if found else data), found

    def _search_for(self, text: str) -> _Search:
        known = [(value, name) for value, name in self.known.items() if value in text]
        present = {anchor for anchor in ANCHORS if anchor in text}
        patterns = [each for each in PATTERNS if not present.isdisjoint(each.anchors)]
        guesses = self._guesses and may_assign(text.lower())
        return _Search(known, patterns, guesses=guesses, fields=self._guesses)


class _Search:
    """The known values and patterns that can occur in the given texts."""

    __slots__ = ("_fields", "_guesses", "_known", "_patterns")

    def __init__(
        self,
        known: list[tuple[str, str]],
        patterns: list[Pattern],
        *,
        guesses: bool = False,
        fields: bool = False,
    ) -> None:
        self._known = known
        self._patterns = patterns
        self._guesses = guesses
        self._fields = fields

    def blank(self, text: str, found: Counter[str]) -> str:
        for value, name in self._known:
            if value in text:
                found[name] += text.count(value)
                text = text.replace(value, f"{MARK_START}{name}]")
        for kind, anchors, regex in self._patterns:
            if any(anchor in text for anchor in anchors):
                text = _blank_pattern(kind, regex, text, found)
        if self._guesses:
            return blank_guesses(text, _GUESS, found)
        return text

    def scrubbed(self, data: Any, found: Counter[str], opaque: Opaque) -> Any:
        """Return a copy of JSON-safe data with its secrets blanked."""
        if isinstance(data, str):
            return self.blank(data, found)
        if isinstance(data, list):
            return [self.scrubbed(each, found, opaque) for each in cast("list[Any]", data)]
        if not isinstance(data, dict):
            return data
        fields = cast("dict[str, Any]", data)
        clean = dict[str, Any]()
        closed = opaque(fields)
        for key, value in fields.items():
            search = _Search(self._known, []) if key in closed else self
            scrubbed = search.scrubbed(value, found, opaque)
            if search._fields and isinstance(scrubbed, str) and _is_secret(key, scrubbed):
                found["secret-field"] += 1
                scrubbed = _FIELD
            clean[search.blank(key, found)] = scrubbed
        return clean


def _blank_pattern(kind: str, regex: re.Pattern[str], text: str, found: Counter[str]) -> str:
    mark = f"{MARK_START}{kind}]"

    def blank(match: re.Match[str]) -> str:
        found[kind] += 1
        if not regex.groups:
            return mark
        start, end = match.span(1)
        return text[match.start() : start] + mark + text[end : match.end()]

    return regex.sub(blank, text)


def _texts(data: Any) -> Iterator[str]:
    """Yield every text in JSON-safe data, keys included."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in cast("dict[str, Any]", data).items():
            yield key
            yield from _texts(value)
    elif isinstance(data, list):
        for value in cast("list[Any]", data):
            yield from _texts(value)


def _is_secret(key: str, value: str) -> bool:
    return bool(value) and MARK_START not in value and is_secret_field(key)


# No secret is longer than this; more text is not held back.
_LONGEST_HELD = 16_384
_SECRET_CHARS = string.ascii_letters + string.digits + string.punctuation
# Words after which the next one is a secret: `token = `, `Authorization: Basic `.
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
STREAM_ENDS = frozenset(
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
# The fields that distinguish streams, and that say which streams an event ends.
_IDENTITY = ("request_id", "block_index", "tool_call_id", "stream")


class _Stream:
    """One stream: its last event, and the end of its text that is held back."""

    __slots__ = ("data", "event", "field", "held")

    def __init__(self, event: str, field: str) -> None:
        self.event = event
        self.field = field
        self.data: dict[str, Any] = {}
        self.held = ""


class EventStreams:
    """Scrubs texts that arrive in pieces, also where a secret is split between two events."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._streams: dict[Hashable, _Stream] = {}

    def feed(self, event: str, data: dict[str, Any]) -> dict[str, Any]:
        """Return the data of an event; that of a stream has only the text that is safe to show."""
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
        """Return events with the held-back text of the streams that this event ends."""
        if event not in STREAM_ENDS or not self._streams:
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
        """Return how much of a text is safe to show; the rest may be the start of a secret."""
        seam = len(text.rstrip(_SECRET_CHARS))
        if said := _INTRODUCTION.search(text, max(0, seam - _LONGEST_INTRODUCTION), seam):
            seam = said.start()
        begins = text.rfind(_KEY_BEGINS)
        if begins >= 0 and _KEY_ENDS not in text[begins:]:
            seam = min(seam, begins)
        for value in self._scrubber.known:
            # Values without blanks and accents are held back by the first rule already.
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
    """Whether an event ends this stream."""
    shared = [name for name in _IDENTITY if name in stream and name in end]
    return bool(shared) and all(stream[name] == end[name] for name in shared)


def _half_of(value: str, text: str) -> int:
    """Return where the end of `text` starts to match `value`; the length of `text` if nowhere."""
    for length in range(min(len(value) - 1, len(text)), 0, -1):
        if text.endswith(value[:length]):
            return len(text) - length
    return len(text)
