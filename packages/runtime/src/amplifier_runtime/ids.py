"""The runtime's only source of identity."""

from __future__ import annotations

import uuid


def new_id(kind: str) -> str:
    """Return an id that nobody else has, which shows what it is the id of."""
    return f"{kind}-{uuid.uuid4().hex}"
