"""Errors of the session store."""

from __future__ import annotations

from amplifier_foundation.errors import SessionStoreError
from amplifier_journal.errors import SessionOpenError
from amplifier_kit.writer_lock import Holder

__all__ = [
    "AmbiguousSessionError",
    "LeaseLostError",
    "SessionExistsError",
    "SessionFullError",
    "SessionHeldError",
    "SessionNotFoundError",
    "StoreError",
    "StoreFullError",
]


class StoreError(SessionStoreError):
    """The disk refused an operation; what was written before is still there."""


class StoreFullError(StoreError):
    """The disk is full; nothing of the record was kept."""


class SessionFullError(SessionStoreError):
    """The session has reached its size limit; nothing of the record was kept."""

    def __init__(self, session_id: str, limit: int) -> None:
        super().__init__(
            f"Session `{session_id}` is full; the last record was not saved.",
            why=f"It has reached its limit of {limit:,} bytes.",
            fix=f"Continue in a fork of it: amplifier session fork {session_id}",
        )
        self.session_id = session_id
        self.limit = limit


class SessionHeldError(SessionStoreError, SessionOpenError):
    """Another process writes the session; `holder` says which."""

    def __init__(self, session_id: str, holder: Holder) -> None:
        if holder.pid:
            who = f"process {holder.pid} on {holder.host}"
        else:
            who = "another process"
        since = f", since {holder.since}" if holder.since else ""
        super().__init__(
            f"Session `{session_id}` is open in {who}{since}.",
            why="One process at a time writes a session.",
            fix="Watch it, fork it, or take it over; after that the other one can write nothing.",
        )
        self.session_id = session_id
        self.holder = holder


class LeaseLostError(SessionStoreError):
    """Another process has taken the session over; this one can no longer write."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"Nothing more is saved here: session `{session_id}` is no longer this process's.",
            why="Another process has taken it over.",
            fix=f"Take it back or continue there: amplifier continue {session_id}",
        )
        self.session_id = session_id


class SessionExistsError(SessionStoreError):
    """There is already a session with the id of a new one."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"There is a session `{session_id}` already.",
            fix=f"amplifier continue {session_id}",
        )
        self.session_id = session_id


class SessionNotFoundError(SessionStoreError):
    """No session has this id, or an id that begins with it."""

    def __init__(self, text: str) -> None:
        super().__init__(f"There is no session `{text}`.", fix="amplifier session list")
        self.text = text


class AmbiguousSessionError(SessionStoreError):
    """Several sessions have an id that begins like this; `candidates` are their ids."""

    def __init__(self, text: str, candidates: list[str]) -> None:
        shown = ", ".join(f"`{each}`" for each in candidates[:5])
        if len(candidates) > 5:
            more = f" and {len(candidates) - 5} more"
        else:
            more = ""
        super().__init__(
            f"`{text}` can be {len(candidates)} sessions: {shown}{more}.",
            fix="Type more of the id.",
        )
        self.text = text
        self.candidates = candidates
