"""Which model call and which tool call the running code belongs to, per asyncio task."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

__all__ = [
    "CORRELATED_EVENTS",
    "INTERIM_EVENTS",
    "REQUEST_EVENTS",
    "REQUEST_ID_FIELD",
    "TERMINAL_EVENTS",
    "TOOL_CALL_EVENTS",
    "OpenToolCall",
    "claim_tool_call",
    "current_request_id",
    "current_tool_call",
    "current_tool_call_id",
    "follow_tool_call",
    "new_request_id",
    "reset_request_id",
    "resolve_request_id",
    "tool_call",
]

REQUEST_ID_FIELD = "request_id"

REQUEST_EVENTS = frozenset({"llm:request"})
TERMINAL_EVENTS = frozenset({"llm:response", "provider:error"})
INTERIM_EVENTS = frozenset({"provider:retry", "provider:throttle"})
CORRELATED_EVENTS = REQUEST_EVENTS | TERMINAL_EVENTS | INTERIM_EVENTS

_open_call: ContextVar[str | None] = ContextVar("amplifier_request_id", default=None)


def new_request_id() -> str:
    """Return a fresh id."""
    return str(uuid4())


def current_request_id() -> str | None:
    """Return the id of the open call, or None between calls."""
    return _open_call.get()


def reset_request_id() -> None:
    """Forget the open call."""
    _open_call.set(None)


def resolve_request_id(event: str, explicit: str | None = None) -> str | None:
    """Return the id that `event` should carry, and open or close the call it is about.

    An `explicit` id always wins. Events that belong to no call keep their own.
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


# --- tool calls ----------------------------------------------------------------------------------

TOOL_CALL_EVENTS = frozenset({"tool:pre", "tool:post", "tool:error"})


@dataclass(eq=False)
class OpenToolCall:
    """A tool call in progress, from its `tool:pre` to its result."""

    tool_name: str
    tool_call_id: str
    # The call during which this one was made, in a child session for example.
    outer: OpenToolCall | None = None
    # The registry whose event opened it; None if the loop itself opened it.
    announced_by: object = None
    claimed_by: set[str] = field(default_factory=set[str])


_open_tool_call: ContextVar[OpenToolCall | None] = ContextVar("amplifier_tool_call", default=None)


def current_tool_call() -> OpenToolCall | None:
    """Return the tool call that the running code belongs to: its hooks, its approval, its run."""
    return _open_tool_call.get()


def current_tool_call_id() -> str | None:
    """Return the id of that tool call, or None outside of tool calls."""
    call = _open_tool_call.get()
    return None if call is None else call.tool_call_id


def claim_tool_call(tool_name: str, by: str) -> str | None:
    """Return the id of the current call if it is one of `tool_name`, once for each `by`.

    This is for wrappers around tools, because `execute` is not given the id of the call. A tool
    may run a tool of the same name itself; for that inner run the id is already claimed.
    """
    call = _open_tool_call.get()
    if call is None or call.tool_name != tool_name or by in call.claimed_by:
        return None
    call.claimed_by.add(by)
    return call.tool_call_id


@contextmanager
def tool_call(tool_name: str, tool_call_id: str) -> Generator[None]:
    """Make the code inside belong to this call; for loops, around everything about one call."""
    outer = _open_tool_call.get()
    _open_tool_call.set(OpenToolCall(tool_name, tool_call_id, outer))
    try:
        yield
    finally:
        _open_tool_call.set(outer)


def follow_tool_call(event: str, data: Any, announced_by: object) -> None:
    """Open or close a call by its events, for loops that do not use `tool_call`.

    `announced_by` is the hook registry. A second `tool:pre` of the same registry means that the
    call before was denied; one of another registry is a call inside of the current one.
    """
    current = _open_tool_call.get()
    is_own = current is not None and current.announced_by is announced_by
    if event != "tool:pre":
        if current is not None and is_own:
            _open_tool_call.set(current.outer)
        return
    facts = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    call_id = facts.get("tool_call_id")
    if current is not None and current.tool_call_id == call_id:
        return
    call = current.outer if current is not None and is_own else current
    if call_id is not None:
        call = OpenToolCall(str(facts.get("tool_name")), str(call_id), call, announced_by)
    _open_tool_call.set(call)
