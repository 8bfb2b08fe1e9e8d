"""The ids of child sessions as published modules make them: span of the parent, own span, agent."""

from __future__ import annotations

import re
import secrets

__all__ = ["generate_sub_session_id"]

# A span has eight bytes, as in the W3C Trace Context.
_SPAN_BYTES = 8
# That standard calls a span of zeros invalid, so it cannot collide with a real parent.
_NO_SPAN = "0" * 16
_CHILD_ID = re.compile(r"[0-9a-f]{16}-([0-9a-f]{16})_")
_TRACE_ID = re.compile(r"[0-9a-f]{8}([0-9a-f]{16})[0-9a-f]{8}")
_UNSAFE = re.compile(r"[^a-z0-9]+")


def generate_sub_session_id(
    agent_name: str | None = None,
    parent_session_id: str | None = None,
    parent_trace_id: str | None = None,
) -> str:
    """Return a new id, `<span of the parent>-<own span>_<agent>`, that is safe as a file's name.

    The span of the parent is that of its id, else the middle of its trace id, else zeros.
    """
    agent = _UNSAFE.sub("-", (agent_name or "").lower()).strip("-") or "agent"
    parent_span = _parent_span(parent_session_id or "", parent_trace_id or "")
    return f"{parent_span}-{secrets.token_hex(_SPAN_BYTES)}_{agent}"


def _parent_span(session_id: str, trace_id: str) -> str:
    child = _CHILD_ID.match(session_id)
    if child is not None and child[1] != _NO_SPAN:
        return child[1]
    trace = _TRACE_ID.fullmatch(trace_id)
    if trace is None:
        return _NO_SPAN
    return trace[1]
