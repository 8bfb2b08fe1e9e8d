"""A log in memory, for replays, tests, and sessions that are not stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from amplifier_journal.records import SCHEMA, Record, json_text, now

__all__ = ["MemoryLog"]


class MemoryLog:
    """Writer and reader of one session's log; `written` has its records.

    `scrub` removes secrets from every record that is not clean.
    """

    def __init__(
        self,
        session_id: str,
        metadata: dict[str, Any] | None = None,
        *,
        scrub: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        self.session_id = session_id
        self.metadata = metadata or {}
        self.written: list[Record] = []
        self._scrub = scrub

    def append(self, kind: str, data: dict[str, Any], *, is_clean: bool = False) -> int:
        """Append a copy of one record and return its number.

        Raises:
            ValueError: the record contains something that JSON cannot represent.
        """
        # Through JSON: the same as a file would have, and independent of later changes to `data`.
        kept: dict[str, Any] = json.loads(json_text(data)[0])
        if self._scrub is not None and not is_clean:
            kept = self._scrub(kept)
        self.written.append(Record(SCHEMA, len(self.written) + 1, now(), kind, kept))
        return len(self.written)

    def sync(self) -> None:
        """Do nothing: memory is never durable."""

    def records(self, after: int = 0) -> Iterator[Record]:
        """Yield the records after number `after`, in order."""
        return islice(self.written, after, None)
