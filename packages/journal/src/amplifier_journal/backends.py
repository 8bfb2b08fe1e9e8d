"""Where sessions are kept besides files: backends, found by entry point."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Protocol

from amplifier_journal.errors import JournalError
from amplifier_journal.log import FollowedLog

__all__ = ["GROUP", "SessionBackend", "find_backend"]

GROUP = "amplifier.backends"
"""The entry points of backends: each is a function that returns one for an address."""


class SessionBackend(Protocol):
    """The sessions at one address, for whoever reads them and makes copies."""

    def read(self, session_id: str) -> FollowedLog:
        """Return a session's log as far as it is written."""
        ...

    def fork(self, session_id: str, *, at: int | None = None) -> str:
        """Make a session with another's records up to number `at`, and return its id."""
        ...


def find_backend(name: str, **address: Any) -> SessionBackend:
    """Return the backend of a name, at an address.

    Raises:
        JournalError: no such backend is installed.
    """
    for each in entry_points(group=GROUP, name=name):
        return each.load()(**address)
    raise JournalError(
        f"Sessions of the backend `{name}` cannot be read here.",
        why="No installed distribution offers it.",
        fix="pip install amplifier-runtime",
    )
