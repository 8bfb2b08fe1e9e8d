"""Short forms of session ids: what is displayed, and what a user may type.

A child's id has that of its parent before its own part: `<parent>-<own part>`, or with published
modules `<span of the parent>-<own span>_<agent>`. Only the own part distinguishes it from its
parent and from the other children.
"""

from __future__ import annotations

__all__ = ["is_meant", "short_id"]

_SHOWN = 8
_SPAN = 16
_UUID = 36


def short_id(session_id: str) -> str:
    """Return the distinctive part of an id: its beginning, or a child's own part."""
    return session_id[_own(session_id) :][:_SHOWN]


def is_meant(session_id: str, text: str) -> bool:
    """Return whether `text` is a prefix of an id, or of a child's own part.

    A prefix that the parent's id has as well means the parent.
    """
    own = _own(session_id)
    # Without the length, every id of a session with children would be ambiguous.
    is_beginning = session_id.startswith(text) and len(text) > own
    return is_beginning or session_id.startswith(text, own)


def _own(session_id: str) -> int:
    """Return the offset of a child's own part in its id, 0 for a root session."""
    dash = session_id[_SPAN : _SPAN + 1]
    underscore = session_id[2 * _SPAN + 1 : 2 * _SPAN + 2]
    if (dash, underscore) == ("-", "_"):
        return _SPAN + 1
    if session_id[_UUID : _UUID + 1] == "-":
        return session_id.rindex("-") + 1
    return 0
