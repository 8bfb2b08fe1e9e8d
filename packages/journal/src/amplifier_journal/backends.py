"""Backends that store sessions, found by entry point: in files, in a database."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from importlib.metadata import entry_points
from typing import Any, Protocol

from amplifier_core.session import AmplifierSession
from amplifier_journal.errors import NoBackendError
from amplifier_journal.log import FollowedLog

__all__ = ["GROUP", "OpenSession", "SessionBackend", "SessionFolder", "find_backend"]

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


class OpenSession(Protocol):
    """A session that is open in this process, and recorded."""

    @property
    def session(self) -> AmplifierSession:
        """The session of the kernel."""
        ...

    async def execute(self, prompt: str | list[dict[str, Any]]) -> str:
        """Run one turn and return the answer; everything it did is stored when this returns."""
        ...


class SessionFolder(SessionBackend, Protocol):
    """A backend whose sessions run in the process that opens them."""

    def open(
        self,
        plan: dict[str, Any],
        *,
        session_id: str | None,
        approval_system: Any,
        display_system: Any,
        capabilities: Mapping[str, Any],
    ) -> AbstractAsyncContextManager[OpenSession]:
        """Open a session, and continue it if it exists; None for a new one."""
        ...

    def session_ids(self) -> list[str]:
        """Return the ids of all sessions, the latest first."""
        ...

    def delete(self, session_id: str) -> None:
        """Delete a session."""
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
