"""What is shown of a session's id, and what may be typed for it.

A child's id has that of its parent before its own part: `<parent>-<own part>`, or with published
modules `<span of the parent>-<own span>_<agent>`. The own part tells it from its parent and from
the other children.
"""

from __future__ import annotations

__all__ = ["is_meant", "short_id"]

_SHOWN = 8
_SPAN = 16
_UUID = 36


def short_id(session_id: str) -> str:
    """Return what tells an id from others: its beginning, or the own part of a child."""
    return session_id[_own(session_id) :][:_SHOWN]


def is_meant(session_id: str, text: str) -> bool:
    """Tell whether a text is the beginning of an id, or of a child's own part.

    What is the beginning of the parent's id as well means the parent.
    """
    own = _own(session_id)
    is_beginning = session_id.startswith(text) and len(text) > own
    return is_beginning or session_id.startswith(text, own)


def _own(session_id: str) -> int:
    """Return where the part of an id begins that its parent's id does not have."""
    dash = session_id[_SPAN : _SPAN + 1]
    underscore = session_id[2 * _SPAN + 1 : 2 * _SPAN + 2]
    if (dash, underscore) == ("-", "_"):
        return _SPAN + 1
    if session_id[_UUID : _UUID + 1] == "-":
        return session_id.rindex("-") + 1
    return 0
