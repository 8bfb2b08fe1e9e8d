"""Converts the stored history to request messages; each is repaired and validated once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from amplifier_core.message_models import Message
from amplifier_kit.history_repair import Repair, repair_history

__all__ = ["RequestHistory"]

Stored: TypeAlias = dict[str, Any]

# How many of the newest messages are compared field by field with what was converted.
_LOOKED_INTO = 4


class RequestHistory:
    """Converts stored messages to provider messages incrementally.

    Each model call has the same messages as the one before and a few more at the end. Known ones
    are recognized by identity, or else by value, and neither repaired nor validated again. A field
    that is set in place is noticed only in the newest four messages; to change an older message, or
    the inside of a field, replace the object.
    """

    def __init__(self) -> None:
        self._start_over([])
        self._repairs: list[Repair] = []

    def _start_over(self, stored: list[Stored]) -> None:
        self._known = 0
        self._stored = stored.copy()
        self._newest: list[Stored] = []
        self._messages: list[Message] = []

    def prepare(self, stored: list[Stored]) -> tuple[list[Message], list[Repair]]:
        """Return `stored` as valid messages, and the repairs that were not reported before."""
        if not self._is_continued_by(stored):
            self._start_over(stored)
        new = stored[self._known :]
        repaired, repairs = repair_history(new)
        if self._known and repairs:
            # A result among the new messages may belong to a call among the old ones.
            self._start_over(stored)
            new = stored
            repaired, repairs = repair_history(stored)
        fresh = _message_validator()(repaired)
        if self._known:
            self._messages += fresh
        else:
            self._messages = fresh
            reported = self._repairs
            self._repairs = repairs
            repairs = [repair for repair in repairs if repair not in reported]
        self._newest = [*self._newest, *map(dict, new[-_LOOKED_INTO:])][-_LOOKED_INTO:]
        self._known = len(stored)
        return self._messages.copy(), repairs

    def _is_continued_by(self, stored: list[Stored]) -> bool:
        """Whether `stored` begins with the known messages, unchanged."""
        known = self._known
        # Extended first: lists of equal length are compared by identity first, in C,
        # and without the copy that a slice of `stored` would make.
        self._stored[known:] = stored[known:]
        if stored != self._stored:
            return False
        return stored[known - len(self._newest) : known] == self._newest


@functools.cache
def _message_validator() -> Callable[[list[Stored]], list[Message]]:
    # Without the adapter's own method, whose overhead is that of validating a short message.
    return TypeAdapter(list[Message]).validator.validate_python
