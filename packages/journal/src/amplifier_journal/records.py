"""The records of a log, the same in memory, in files and in a database."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

__all__ = ["SCHEMA", "Record", "json_text", "now"]

SCHEMA = 1


class Record(NamedTuple):
    """One record; `seq` gives the order, `at` is the wall-clock time."""

    v: int
    seq: int
    at: str
    kind: str
    data: dict[str, Any]


_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def now() -> str:
    """Return the present time in the form that records have: UTC, with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def json_text(value: Any) -> tuple[str, bool]:
    """Return `value` as JSON, and whether it was plain data; models and decimals are converted.

    Raises:
        ValueError: it contains something that JSON cannot represent.
    """
    try:
        return _compact.encode(value), True
    except TypeError:
        encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=_plain)
    try:
        return encoder.encode(value), False
    except TypeError as error:
        raise ValueError(f"This cannot be recorded: {error}") from error


def _plain(value: Any) -> Any:
    """Return JSON data for an object that a module put into a message or event."""
    dump: Any = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump(mode="json")
    if isinstance(value, set | frozenset):
        return sorted(cast("set[Any]", value), key=str)
    # Decimal, Path, datetime and the like have a `__str__` with their value. The default one has
    # only an address, which differs in every run.
    if type(value).__str__ is not object.__str__:
        return str(value)
    raise TypeError(f"there is no JSON for {type(value).__name__}")
