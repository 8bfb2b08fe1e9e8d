"""Errors of opening and writing a conversation's file."""

from __future__ import annotations

from pathlib import Path

from amplifier_core.errors import SessionError
from amplifier_kit.writer_lock import Holder


class ContextInUseError(SessionError):
    """Another process has this conversation open; the message says which and since when."""

    def __init__(self, path: Path, holder: Holder) -> None:
        known = f"process {holder.pid} on {holder.host}, since {holder.since}"
        if holder.pid:
            who = f"{known}, session {holder.session_id}"
        else:
            who = "a process that has not said which"
        super().__init__(
            f"The conversation `{path}` is open in {who}. End that process, or open it with "
            "`takeover: true`; the other one can then no longer write."
        )


class ContextFencedError(SessionError):
    """Another process has taken the conversation over; nothing was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"Nothing was written: `{path.name}` is no longer this process's. Another process has "
            "taken the conversation over; open the session again to continue."
        )


class ContextFormatError(SessionError):
    """The file has a format that this version cannot read."""
