"""Backends that store sessions, found by entry point: in files, in a database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from importlib.metadata import entry_points
from typing import Any, Protocol

from amplifier_core.session import AmplifierSession
from amplifier_journal.errors import NoBackendError
from amplifier_journal.log import FollowedLog

__all__ = [
    "GROUP",
    "OpenSession",
    "SessionBackend",
    "SessionFolder",
    "TurnBackend",
    "TurnEntry",
    "find_backend",
    "find_turn_backend",
]

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


class TurnEntry(Protocol):
    """What a reader of a running turn gets: a record of its log, or its progress."""

    @property
    def name(self) -> str:
        """The name of an event, or the kind of any other record."""
        ...

    @property
    def data(self) -> dict[str, Any]:
        """The data of the record; that of an event has the event's own under `data`."""
        ...


class TurnBackend(Protocol):
    """The sessions of one tenant in a database, whose turns workers run."""

    async def open(self) -> None:
        """Connect; makes the tables of an empty database."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...

    async def create_session(self, session_id: str, plan: dict[str, Any]) -> None:
        """Create a session; an existing one stays unchanged."""
        ...

    async def update_session(self, session_id: str, plan: dict[str, Any]) -> None:
        """Give a session another plan, from its next turn on."""
        ...

    async def session_ids(self, *, limit: int, offset: int) -> list[str]:
        """Return the ids of the sessions, the latest first."""
        ...

    async def delete_session(self, session_id: str) -> None:
        """Delete a session with all it has."""
        ...

    async def submit(
        self,
        session_id: str,
        prompt: str | list[dict[str, Any]],
        *,
        key: str,
        output_schema: dict[str, Any] | None,
        metadata: dict[str, Any] | None,
    ) -> str:
        """Append a turn and return its id; the same key returns the same turn."""
        ...

    async def answer_of(self, turn_id: str) -> str | None:
        """Wait for the end of a turn and return its answer; None if it was cancelled."""
        ...

    def entries(self, session_id: str, turn_id: str) -> AsyncGenerator[TurnEntry]:
        """Yield what the log has of a turn, and then live until its end."""
        ...

    async def decide(self, approval_id: str, option: str, *, by: str) -> None:
        """Answer a question."""
        ...

    async def cancel(self, turn_id: str, *, immediate: bool) -> None:
        """Ask a turn to stop."""
        ...

    def worker(self, *, concurrency: int) -> AbstractAsyncContextManager[None]:
        """Run turns of the database in this process."""
        ...


def find_turn_backend(url: str, tenant: str) -> TurnBackend:
    """Return the backend of durable sessions for a database.

    Raises:
        NoBackendError: none is installed.
    """
    return _load("turns", url=url, tenant=tenant)


def find_backend(name: str, **address: Any) -> SessionBackend:
    """Return the backend of this name for an address.

    Raises:
        NoBackendError: no such backend is installed.
    """
    return _load(name, **address)


def _load(name: str, **address: Any) -> Any:
    for each in entry_points(group=GROUP, name=name):
        return each.load()(**address)
    raise NoBackendError(
        f"Sessions of the backend `{name}` cannot be read here.",
        why="No installed distribution offers it.",
    )
