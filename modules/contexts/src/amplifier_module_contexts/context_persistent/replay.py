"""Rebuild the messages of a conversation from the lines of its file."""

from __future__ import annotations

import json
from typing import Any, cast

from amplifier_module_contexts.context_persistent.errors import ContextFormatError

SCHEMA = 1


class Replay:
    """Applies lines in order to a list of messages.

    A record with a lower fence than one before it was written by a process that had already lost
    the file; it is ignored. A line that is not a valid record goes to `damaged`.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.fence = 0
        self.fenced_out = 0
        self.damaged: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """Apply whole lines."""
        for line in data.split(b"\n"):
            if line and not self._take(_parsed(line)):
                self.damaged.append(line)

    def _take(self, record: dict[str, Any]) -> bool:
        if "schema" in record:
            if record["schema"] != SCHEMA:
                raise ContextFormatError(
                    f"The conversation's file has format {record['schema']}; this version of "
                    f"context-persistent reads format {SCHEMA}. Use the version that wrote it."
                )
            return True
        if "role" in record:
            # A bare message, as the published persistent context writes it.
            record = {"fence": 0, "message": record}
        fence: Any = record.get("fence")
        added: Any = record.get("reset", [record["message"]] if "message" in record else [])
        if not isinstance(fence, int) or not _are_messages(added):
            return False
        if fence < self.fence:
            self.fenced_out += 1
            return True
        self.fence = fence
        if "reset" in record:
            self.messages = added
        else:
            self.messages += added
        return True


def _parsed(line: bytes) -> dict[str, Any]:
    """Return the record, or an empty one if the line is not valid."""
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if isinstance(record, dict):
        return cast("dict[str, Any]", record)
    return {}


def _are_messages(values: Any) -> bool:
    if not isinstance(values, list):
        return False
    return all(isinstance(each, dict) and "role" in each for each in cast("list[Any]", values))
