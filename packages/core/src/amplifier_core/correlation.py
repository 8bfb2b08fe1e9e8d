"""One id for all events of one model call, kept per asyncio task."""

from __future__ import annotations

from contextvars import ContextVar

from amplifier_core._ids import new_id

__all__ = [
    "CORRELATED_EVENTS",
    "INTERIM_EVENTS",
    "REQUEST_EVENTS",
    "REQUEST_ID_FIELD",
    "TERMINAL_EVENTS",
    "current_request_id",
    "new_request_id",
    "reset_request_id",
    "resolve_request_id",
]

REQUEST_ID_FIELD = "request_id"

REQUEST_EVENTS = frozenset({"llm:request"})
TERMINAL_EVENTS = frozenset({"llm:response", "provider:error"})
INTERIM_EVENTS = frozenset({"provider:retry", "provider:throttle"})
CORRELATED_EVENTS = REQUEST_EVENTS | TERMINAL_EVENTS | INTERIM_EVENTS

_open_call: ContextVar[str | None] = ContextVar("amplifier_request_id", default=None)


def new_request_id() -> str:
    """Return a fresh id."""
    return new_id()


def current_request_id() -> str | None:
    """Return the id of the open call, or None between calls."""
    return _open_call.get()


def reset_request_id() -> None:
    """Forget the open call."""
    _open_call.set(None)


def resolve_request_id(event: str, explicit: str | None = None) -> str | None:
    """Return the id that `event` should carry, and open or close the call it speaks of.

    An `explicit` id always wins. Events that belong to no call keep what they have.
    """
    if event in REQUEST_EVENTS:
        request_id = new_request_id() if explicit is None else explicit
        _open_call.set(request_id)
        return request_id
    if event in TERMINAL_EVENTS:
        request_id = _open_call.get() if explicit is None else explicit
        _open_call.set(None)
        return request_id
    if event in INTERIM_EVENTS:
        if explicit is not None:
            _open_call.set(explicit)
        return _open_call.get()
    return explicit
