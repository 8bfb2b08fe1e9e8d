"""HTTP to a receiver: the beginning of an answer is read, and no more of it."""

from __future__ import annotations

import io
from typing import Any

# Comes with the exporter, and is imported only where that is used.
import requests  # deptry: ignore[DEP003]
from requests.adapters import HTTPAdapter  # deptry: ignore[DEP003]

_MOST_BYTES = 65_536


def bounded_session() -> requests.Session:
    """Return a session whose answers cannot fill the memory."""
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _BoundedAdapter())
    return session


class _BoundedAdapter(HTTPAdapter):
    def send(self, request: Any, stream: bool = False, *args: Any, **more: Any) -> Any:
        """Send a request and cut its answer; what is compressed is left as it is."""
        response: Any = super().send(request, True, *args, **more)
        body: bytes = response.raw.read(_MOST_BYTES, decode_content=False)
        response.close()
        response.raw = io.BytesIO(body)
        return response
