"""The differences between two mount plans, as lines for users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

_LONGEST = 120
_MISSING = object()


def plan_changes(before: Any, after: Any) -> list[str]:
    """Return a line for each difference: its place, the old and the new value."""
    if before is None:
        return []
    return list(_changes("", before, after))


def _changes(place: str, before: Any, after: Any) -> Iterator[str]:
    if before == after:
        return
    old = _entries(before)
    new = _entries(after)
    if old is None or new is None:
        yield f"{place or 'plan'}: {_shown(before)} -> {_shown(after)}"
        return
    for key in dict.fromkeys([*old, *new]):
        where = f"{place}.{key}" if place else key
        yield from _changes(where, old.get(key, _MISSING), new.get(key, _MISSING))


def _entries(value: Any) -> dict[str, Any] | None:
    """Return a mapping, or a list of modules by their ids; None for anything else.

    By ids, so that a module that moved within its list is not a difference.
    """
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if not isinstance(value, list):
        return None
    entries = cast("list[Any]", value)
    if not all(isinstance(each, dict) and "module" in each for each in entries):
        return None
    return {str(each.get("instance_id") or each["module"]): each for each in entries}


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "(nothing)"
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}…"
