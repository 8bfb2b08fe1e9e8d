"""The log of a session as the recorder writes it, and what is worth a line to the user."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from amplifier_core import events
from amplifier_foundation.errors import FoundationError, SessionStoreError
from amplifier_foundation.recording.plain import has_long_text, shortened

__all__ = ["Log", "LogWriter", "RecordingFailedError"]

logger = logging.getLogger(__name__)

Scrub = Callable[[dict[str, Any]], dict[str, Any]]

# What these carry is in the record of the call that they are about.
_RECORDED_APART = {
    events.PROVIDER_RESPONSE: ("response",),
    events.CONTENT_BLOCK_END: ("block", "usage"),
    events.TOOL_POST: ("result", "tool_result"),
}


def news_in(event: str, data: dict[str, Any], coordinator: Any, scrub: Scrub) -> dict[str, Any]:
    """Return the data of an event without what is recorded apart, and what every event has.

    Long texts are shortened; secrets are taken out before, because a part of one is not found.
    """
    own = {"session_id": coordinator.session_id, "parent_id": coordinator.parent_id}
    known = _RECORDED_APART.get(event, ())
    facts = {
        key: value
        for key, value in data.items()
        if key != "timestamp" and key not in known and not (key in own and own[key] == value)
    }
    if has_long_text(facts):
        return shortened(scrub(facts))
    return facts


class LogWriter(Protocol):
    """What a log is written with: the session store's writer, or a list in memory."""

    def append(self, kind: str, data: dict[str, Any], *, is_clean: bool = False) -> int:
        """Write one record and return its number; written when this returns.

        One that `is_clean` has no secret in it, because it was scrubbed before.
        """
        ...

    def sync(self) -> None:
        """Put everything onto the disk."""
        ...


class RecordingFailedError(SessionStoreError):
    """The log takes no more records, so no model and no tool is called any more."""


class Log:
    """Writes records; the first failure is kept, and nothing is written after it.

    Until `release` records wait in memory: what modules say while they mount comes behind the
    record that opens the session.
    """

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self._held: list[tuple[str, dict[str, Any], bool]] | None = []
        self.failure: Exception | None = None

    def release(self, kind: str, data: dict[str, Any]) -> None:
        """Write the opening record and everything that waited for it."""
        held = self._held or []
        self._held = None
        for kind_, data_, is_clean in ((kind, data, False), *held):
            self.write(kind_, data_, is_clean=is_clean)

    def write(self, kind: str, data: dict[str, Any], *, is_clean: bool = False) -> int | None:
        """Write one record; returns its number, None when it waits or could not be written."""
        if self._held is not None:
            self._held.append((kind, data, is_clean))
            return None
        if self.failure is not None:
            return None
        try:
            return self._writer.append(kind, data, is_clean=is_clean)
        except (FoundationError, OSError, ValueError, TypeError) as error:
            logger.exception("record not written kind=%s", kind)
            self.failure = error
            return None

    def sync(self) -> None:
        """Put everything onto the disk; blocks."""
        if self.failure is None:
            try:
                self._writer.sync()
            except (FoundationError, OSError) as error:
                logger.exception("log not synced")
                self.failure = error

    def check(self) -> None:
        """Raise RecordingFailedError when the log takes no more records."""
        if self.failure is not None:
            raise RecordingFailedError(
                "The session's log cannot be written, so the turn was stopped.",
                why=str(self.failure),
                fix=getattr(self.failure, "fix", "") or "amplifier doctor",
            ) from self.failure
