"""The errors of a log, whichever backend stores it."""

from __future__ import annotations

from amplifier_kit.explained_error import ExplainedError

__all__ = ["JournalError", "NoBackendError", "RecordingFailedError", "SessionOpenError"]


class JournalError(ExplainedError):
    """The root of the errors of this package."""


class NoBackendError(JournalError):
    """No installed distribution offers the backend that a session is in."""


class SessionOpenError(JournalError):
    """The session is open already, here or in another process: it has one writer at a time."""


class RecordingFailedError(JournalError):
    """The log cannot be written, so that no more model or tool calls are made."""
