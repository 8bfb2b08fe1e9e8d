"""Blanking secrets in texts and in data: known values first, then patterns, then guesses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, cast

from amplifier_kit.secrets.guesses import blank_guesses, may_assign
from amplifier_kit.secrets.names import is_secret_field
from amplifier_kit.secrets.patterns import ANCHORS, PATTERNS, Pattern

MARK_START = "[REDACTED:"

_GUESS = f"{MARK_START}assigned-secret]"
_FIELD = f"{MARK_START}secret-field]"


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

    def scrub(self, data: Any) -> tuple[Any, Counter[str]]:
        """Return JSON-safe data without its secrets, itself when there are none, and their kinds.

        Texts are looked at one by one, keys too, and so are the names of fields.
        """
        found: Counter[str] = Counter()
        # One look at all texts together decides which kinds each is searched for.
        search = self._search_for("\n".join(_texts(data)))
        clean = _scrubbed(data, search, found, fields=self._guesses)
        return (clean if found else data), found

    def _search_for(self, text: str) -> _Search:
        known = [(value, name) for value, name in self.known.items() if value in text]
        present = {anchor for anchor in ANCHORS if anchor in text}
        patterns = [each for each in PATTERNS if not present.isdisjoint(each.anchors)]
        return _Search(known, patterns, guesses=self._guesses and may_assign(text.lower()))


class _Search:
    """What a text is worth being searched for."""

    __slots__ = ("_guesses", "_known", "_patterns")

    def __init__(
        self, known: list[tuple[str, str]], patterns: list[Pattern], *, guesses: bool
    ) -> None:
        self._known = known
        self._patterns = patterns
        self._guesses = guesses

    def blank(self, text: str, found: Counter[str]) -> str:
        for value, name in self._known:
            if value in text:
                found[name] += text.count(value)
                text = text.replace(value, f"{MARK_START}{name}]")
        for kind, anchors, regex in self._patterns:
            if any(anchor in text for anchor in anchors):
                text = _blank_pattern(kind, regex, text, found)
        return blank_guesses(text, _GUESS, found) if self._guesses else text


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


def _scrubbed(data: Any, search: _Search, found: Counter[str], *, fields: bool) -> Any:
    if isinstance(data, str):
        return search.blank(data, found)
    if isinstance(data, list):
        items = cast("list[Any]", data)
        return [_scrubbed(value, search, found, fields=fields) for value in items]
    if not isinstance(data, dict):
        return data
    clean: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", data).items():
        scrubbed = _scrubbed(value, search, found, fields=fields)
        if fields and isinstance(scrubbed, str) and _is_secret(key, scrubbed):
            found["secret-field"] += 1
            scrubbed = _FIELD
        clean[search.blank(key, found)] = scrubbed
    return clean


def _is_secret(key: str, value: str) -> bool:
    return bool(value) and MARK_START not in value and is_secret_field(key)
