"""What the tests of provider-anthropic share: a server of the format, and a line to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from wire.line import Line
from wire.server import WireServer
from wire.vendors.anthropic import Anthropic


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WireServer]:
    """A server of the vendor's format, where a provider without a `base_url` looks for it."""
    async with WireServer(Anthropic()) as running:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-of-the-environment")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.base_url)
        yield running


@pytest.fixture
async def line(server: WireServer) -> AsyncIterator[Line]:
    """A line to the server; the test mounts the provider with `line.mount(QUICK | {...})`."""
    line = Line(server)
    yield line
    await line.close()
