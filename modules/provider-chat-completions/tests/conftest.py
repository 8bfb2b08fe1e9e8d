"""What the tests of provider-chat-completions share: a provider mounted in front of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from wire.line import QUICK, Line
from wire.server import Scripted, WireServer
from wire.vendors.chat_completions import ChatCompletions

Connect = Callable[..., Awaitable[Line]]


class Routed(ChatCompletions):
    """A server with routes of its own, by path; a list of models is there when it has none."""

    def __init__(self, routes: dict[str, Any]) -> None:
        self._routes = routes

    def side_route(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        if path in self._routes:
            return self._routes[path]
        return super().side_route(method, path, body)


@pytest.fixture
async def connect(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connect]:
    """Mount providers in front of servers with these routes, and close both after the test."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    async with AsyncExitStack() as stack:

        async def connected(
            *replies: Scripted, routes: dict[str, Any] | None = None, **config: Any
        ) -> Line:
            server = await stack.enter_async_context(WireServer(Routed(routes or {}), *replies))
            line = Line(server)
            stack.push_async_callback(line.close)
            for event in ("provider:context_window", "provider:large_system_prompt"):
                line.coordinator.hooks.register(event, line._record)
            own = {
                "base_url": f"{server.base_url}/v1",
                "api_key": "a-key-for-tests",
                "default_model": ChatCompletions.model,
            }
            await line.mount({**own, **QUICK, **config})
            return line

        yield connected
