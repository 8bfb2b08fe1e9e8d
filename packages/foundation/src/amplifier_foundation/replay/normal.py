"""Making two runs comparable: ids by their order of appearance, no clock."""

from __future__ import annotations

import re
from typing import Any, cast

_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-[0-9a-f]{8})*\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?")
_CLOCK = frozenset({"timestamp", "seconds", "at", "since", "began", "started_at", "ended_at"})
_CLOCK_ENDS = ("_ms", "_seconds", "_at")
# Made anew in every run, in whatever form their makers like.
_FRESH = frozenset({"request_id", "session_id", "parent_id", "child_session_id", "grant_id"})


class Normal:
    """Brings the data of one run into a form that another run can have too."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def data(self, value: Any) -> Any:
        """Return data of a message or request: texts without ids and times."""
        return self._walk(value, drop_clock=False)

    def event(self, value: Any) -> Any:
        """Return the data of an event, without what a clock says as well."""
        return self._walk(value, drop_clock=True)

    def _walk(self, value: Any, *, drop_clock: bool) -> Any:
        if isinstance(value, str):
            if len(value) > 9:
                return _TIME.sub("<time>", _UUID.sub(self._name, value))
            return value
        if isinstance(value, list):
            return [self._walk(each, drop_clock=drop_clock) for each in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        items = cast("dict[str, Any]", value).items()
        return {
            key: self._id(each)
            if key in _FRESH and isinstance(each, str)
            else self._walk(each, drop_clock=drop_clock)
            for key, each in items
            if key != "timestamp" and not (drop_clock and _is_clock(key))
        }

    def _name(self, match: re.Match[str]) -> str:
        return self._id(match[0])

    def _id(self, value: str) -> str:
        return self._ids.setdefault(value, f"<id {len(self._ids) + 1}>")


def _is_clock(key: str) -> bool:
    return key in _CLOCK or key.endswith(_CLOCK_ENDS)
