"""Stored sessions: list, read, fork and delete those of a folder."""

from __future__ import annotations

import os
from typing import Any, TypeAlias, cast

from amplifier.errors import AgentError, how_to_install
from amplifier_journal.backends import SessionFolder, find_backend
from amplifier_journal.errors import NoBackendError
from amplifier_journal.log import FollowedLog
from amplifier_journal.readings.state import state_of
from amplifier_kit.explained_error import ExplainedError

__all__ = ["Sessions", "Store", "read_session", "session_folder"]

Store: TypeAlias = str | os.PathLike[str]
"""The folder that sessions are stored in."""


class Sessions:
    """The sessions of a folder, read without opening them: one that is open can be read too."""

    def __init__(self, store: Store) -> None:
        self._folder = session_folder(store)

    def ids(self) -> list[str]:
        """Return the ids of all sessions, the latest first."""
        return self._folder.session_ids()

    def messages(self, session_id: str) -> list[dict[str, Any]]:
        """Return the conversation of a session, as its log has it."""
        return state_of(read_session(self._folder, session_id).records()).messages

    def fork(self, session_id: str) -> str:
        """Copy a session, and return the id of the copy."""
        return self._folder.fork(session_id)

    def delete(self, session_id: str) -> None:
        """Delete a session."""
        self._folder.delete(session_id)


def read_session(folder: SessionFolder, session_id: str) -> FollowedLog:
    """Return the log of a stored session.

    Raises:
        AgentError: there is no such session.
    """
    try:
        return folder.read(session_id)
    except ExplainedError:
        if session_id in folder.session_ids():
            raise
        fix = "Sessions(store).ids() returns the ids of all sessions."
        raise AgentError(f"There is no session `{session_id}`.", fix=fix) from None


def session_folder(store: Store) -> SessionFolder:
    """Return the backend of a folder.

    Raises:
        AgentError: the distribution that stores sessions is not installed.
    """
    try:
        return cast("SessionFolder", find_backend("files", folder=store))
    except NoBackendError:
        raise AgentError(
            "Sessions cannot be stored in a folder here.",
            why="The part that stores them is not installed.",
            fix=how_to_install("files"),
        ) from None
