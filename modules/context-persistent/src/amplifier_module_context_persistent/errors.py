"""Why a conversation's file cannot be opened or written."""

from __future__ import annotations

from amplifier_core.errors import SessionError


class ContextInUseError(SessionError):
    """Another process has this conversation open; the message says which, and since when."""


class ContextFencedError(SessionError):
    """This process no longer writes the conversation; nothing was written."""


class ContextFormatError(SessionError):
    """The file has a format that this version does not know."""
