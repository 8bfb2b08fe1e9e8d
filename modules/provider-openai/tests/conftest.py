"""What the tests of provider-openai share: a provider mounted in front of a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from wire.line import QUICK, Line
from wire.server import WireServer
from wire.vendor import Answer
from wire.vendors.responses import Responses


class Played(Responses):
    """Answers with the events it is given, or with the response that the last of them brings."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._events = events

    def stream(self, answer: Answer, body: dict[str, Any]) -> list[bytes]:
        return [f"data: {json.dumps(event)}\n\n".encode() for event in self._events]

    def body(self, answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
        return self._events[-1]["response"]


@pytest.fixture
async def connect(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Awaitable[Line]]]:
    """Mount providers in front of servers that answer `calls` calls, and close both after the test.

    A server says that it is fine, or plays the `events` it is given.
    """
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    async with AsyncExitStack() as stack:

        async def connected(
            *events: dict[str, Any], calls: int = 1, vendor: Responses | None = None, **config: Any
        ) -> Line:
            vendor = vendor or (Played(list(events)) if events else Responses())
            replies = [Answer.of("Fine.")] * calls
            server = await stack.enter_async_context(WireServer(vendor, *replies))
            line = Line(server)
            stack.push_async_callback(line.close)
            await line.mount({**vendor.config(server.base_url), **QUICK, **config})
            return line

        yield connected
