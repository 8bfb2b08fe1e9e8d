"""What is shown of a session's id, and what may be typed for it."""

from __future__ import annotations

__all__ = ["short_id"]

_SHOWN = 8
# Children that published modules start are named `<span of the parent>-<own span>_<agent>`.
_SPAN = 16


def short_id(session_id: str) -> str:
    """Return the part of an id that tells it from others: its beginning, of a child its own span.

    A child's id begins with the span of its parent, which is the same for all of its children.
    """
    dash, underscore = session_id[_SPAN : _SPAN + 1], session_id[2 * _SPAN + 1 : 2 * _SPAN + 2]
    is_child = (dash, underscore) == ("-", "_")
    return (session_id[_SPAN + 1 :] if is_child else session_id)[:_SHOWN]
