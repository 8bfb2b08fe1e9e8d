"""Backends that store sessions elsewhere than in files, found by entry point."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Protocol

from amplifier_journal.errors import NoBackendError
from amplifier_journal.log import FollowedLog

__all__ = ["GROUP", "SessionBackend", "find_backend"]

GROUP = "amplifier.backends"
"""The entry points of backends: each is a function that returns one for an address."""


class SessionBackend(Protocol):
    """The sessions at one address: read and fork."""

    def read(self, session_id: str) -> FollowedLog:
        """Return a session's log as written so far."""
        ...

    def fork(self, session_id: str, *, at: int | None = None) -> str:
        """Create a session with another's records up to number `at`, and return its id."""
        ...


def find_backend(name: str, **address: Any) -> SessionBackend:
    """Return the backend of this name for an address.

    Raises:
        NoBackendError: no such backend is installed.
    """
    for each in entry_points(group=GROUP, name=name):
        return each.load()(**address)
    raise NoBackendError(
        f"Sessions of the backend `{name}` cannot be read here.",
        why="No installed distribution offers it.",
    )
