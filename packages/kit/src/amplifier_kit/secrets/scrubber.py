"""Blanking secrets in texts and in data: known values first, then patterns, then guesses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, cast

from amplifier_kit.secrets.guesses import blank_guesses, may_assign
from amplifier_kit.secrets.names import is_secret_field
from amplifier_kit.secrets.patterns import ANCHORS, PATTERNS, Pattern

MARK_START = "[REDACTED:"

_GUESS = f"{MARK_START}assigned-secret]"
_FIELD = f"{MARK_START}secret-field]"

Opaque = Callable[[dict[str, Any]], Collection[str]]
"""Names the fields of a mapping in which only known values are blanked."""


def _nothing(fields: dict[str, Any]) -> Collection[str]:
    return ()


class Scrubber:
    """Knows some secrets by value, many by their form, and blanks them all.

    Without `guesses` it leaves alone what only looks like a secret by the name it is given.
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

        Texts are looked at one by one, keys too, and so are the names of fields. In what is
        `opaque` a pattern would only be met by chance: known values alone are blanked there.
        """
        found: Counter[str] = Counter()
        # One look at all texts together decides which kinds each is searched for.
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
    """What texts are worth being searched for."""

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
