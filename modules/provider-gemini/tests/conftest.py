"""What the tests of provider-gemini share: the SDK, a server of its format, a line between them."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from amplifier_module_provider_gemini.from_wire import Draft
from wire.line import Line
from wire.server import WireServer
from wire.vendors.gemini import Gemini

Read = Callable[..., Draft]


@pytest.fixture
def sdk() -> Any:
    """The SDK, whose sources warn when they are compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("google.genai")


@pytest.fixture
def read(sdk: Any) -> Read:
    """Read chunks, given as the API writes them, into a draft."""

    def into_draft(*chunks: dict[str, Any]) -> Draft:
        draft = Draft("gemini-3.8-flash")
        for chunk in chunks:
            for part in draft.take(sdk.types.GenerateContentResponse.model_validate(chunk)):
                draft.add(part)
        return draft

    return into_draft


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WireServer]:
    """A server of the format, where a provider without a `base_url` looks for it."""
    async with WireServer(Gemini()) as running:
        monkeypatch.setenv("GEMINI_API_KEY", "a-key-of-the-environment")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", running.base_url)
        yield running


@pytest.fixture
async def line(server: WireServer) -> AsyncIterator[Line]:
    """A line to the server; the test mounts the provider with `line.mount(QUICK | {...})`."""
    line = Line(server)
    yield line
    await line.close()
