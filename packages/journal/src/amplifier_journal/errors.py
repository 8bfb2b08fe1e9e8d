"""What can go wrong with a log, wherever it is kept."""

from __future__ import annotations

from amplifier_kit.explained_error import ExplainedError

__all__ = ["JournalError", "RecordingFailedError"]


class JournalError(ExplainedError):
    """The root of the errors of this package."""


class RecordingFailedError(JournalError):
    """The log takes no more records, so no model and no tool is called any more."""
