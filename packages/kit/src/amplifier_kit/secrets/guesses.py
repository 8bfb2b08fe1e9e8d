"""Secrets nobody knows the form of: random text that is assigned to a telling name."""

from __future__ import annotations

import math
import re
from collections import Counter

# Lower-case texts one of which every telling name contains; a quick look before the slow one.
_HINTS = ("key", "token", "secret", "passw", "passphrase", "pwd", "credential")
_SHORTEST_RANDOM = 16
_RANDOM_BITS_PER_CHAR = 3.0
_PASSWORD_BITS_PER_CHAR = 2.5

TELLING_NAME = (
    r"(?:(?P<password>passw(?:or)?d|passphrase|pwd)"
    r"|(?:api|access|secret|private|signing|encryption|account|auth)[_-]?key"
    r"|token|secret|credentials?)"
)
_IS = r"[\"'\\]{0,3}\s{0,4}(?::=|=>|[:=])\s{0,4}[\"'\\]{0,3}"
_VALUE = r"(?P<value>[A-Za-z0-9+/=_~.!@#$%^&*-]{8,512}+)"
# What is called or indexed is code, not a value.
_ASSIGNMENT = re.compile(f"(?i:{TELLING_NAME}){_IS}{_VALUE}(?![(\\[])")
_REFERENCE = re.compile(r"[./~]|\$[A-Z_({]|https?\Z")


def may_assign(lowered: str) -> bool:
    """Whether a text, in lower case, can hold an assignment worth a closer look."""
    return any(hint in lowered for hint in _HINTS)


def blank_guesses(text: str, mark: str, found: Counter[str]) -> str:
    """Return `text` with what looks like an assigned secret replaced by `mark`."""

    def blank(match: re.Match[str]) -> str:
        if not _looks_random(match["value"], is_password=match["password"] is not None):
            return match[0]
        found["assigned-secret"] += 1
        return match[0][: match.start("value") - match.start()] + mark

    return _ASSIGNMENT.sub(blank, text)


def _looks_random(value: str, *, is_password: bool) -> bool:
    """Whether a value has letters, digits and little order, as generated ones do."""
    if _REFERENCE.match(value):
        return False
    has_letters = any(char.isalpha() for char in value)
    has_digits = any(char.isdigit() for char in value)
    if not (has_letters and has_digits):
        return False
    if is_password:
        return _bits_per_char(value) >= _PASSWORD_BITS_PER_CHAR
    return len(value) >= _SHORTEST_RANDOM and _bits_per_char(value) >= _RANDOM_BITS_PER_CHAR


def _bits_per_char(value: str) -> float:
    """Return the Shannon entropy of the characters."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())
