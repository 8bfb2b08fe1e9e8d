"""Write records as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

Record = dict[str, Any]


def json_line(record: Record, clean: Callable[[Record], Record] | None = None) -> bytes:
    """Return a record as a line, after `clean` if it is given.

    Raises:
        ValueError: the record contains something that JSON cannot represent.
    """
    try:
        line = _dumped(record)
    except TypeError as error:
        raise ValueError(f"Message cannot be written: {error}") from error
    if clean is not None:
        # On the parsed line: a secret inside an object is plain data only after serialization.
        plain: Record = json.loads(line)
        left = clean(plain)
        line = line if left is plain else _dumped(left)
    return line.encode() + b"\n"


def _dumped(record: Record) -> str:
    return json.dumps(record, default=_plain, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """Return objects that published loops put into messages as JSON values."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"there is no JSON for {type(value).__name__}")
