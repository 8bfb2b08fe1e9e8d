"""The SDK's client over our own HTTP client, with idle timeouts and streams that close."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from amplifier_kit.calls.connections import read_rest
from amplifier_kit.calls.lazy_client import bound_answer
from amplifier_kit.calls.prices import load_price_data
from amplifier_module_provider_gemini.config import GeminiConfig

if TYPE_CHECKING:
    import httpx2
    from google.genai import Client, types

# The HTTP responses that the stream of the current task has opened.
_opened: ContextVar[list[httpx2.Response] | None] = ContextVar("opened", default=None)


class GeminiClient:
    """The SDK's client over our own HTTP client; both are closed together."""

    def __init__(self, sdk: Client, http: httpx2.AsyncClient) -> None:
        self._sdk = sdk
        self._http = http
        # Any: the SDK's types have holes where PIL is not installed.
        self.models: Any = sdk.aio.models

    @asynccontextmanager
    async def stream(
        self, parameters: dict[str, Any]
    ) -> AsyncGenerator[AsyncIterator[types.GenerateContentResponse]]:
        """Yield the chunks of an answer, and always close the connection afterwards."""
        # The SDK nests generators: if the outer one is left early, the inner ones and their
        # connection stay open until the garbage collector runs.
        opened: list[httpx2.Response] = []
        token = _opened.set(opened)
        try:
            chunks = await self.models.generate_content_stream(**parameters)
            yield chunks
            await read_rest(chunks)
        finally:
            _opened.reset(token)
            for response in opened:
                await response.aclose()

    async def aclose(self) -> None:
        """Close both clients."""
        self._sdk.close()
        await self._http.aclose()


def make_client(config: GeminiConfig) -> GeminiClient:
    """Import the SDK and return its client; takes a second or two, so call it in a thread."""
    # The SDK warns when it is compiled, and about values of the vendor that its enums lack.
    warnings.filterwarnings("ignore", module=r".*google[/\\.]genai")
    import httpx2  # noqa: PLC0415 - heavy
    from google.genai import Client, types  # noqa: PLC0415 - heavy

    load_price_data()
    # Builds pydantic's validators here instead of in the first call, on the event loop.
    types.GenerateContentConfig.model_validate({"tools": [{"functionDeclarations": [{}]}]})
    types.GenerateContentResponse.model_validate({"candidates": [{"content": {"parts": [{}]}}]})
    hooks = {"request": [_timeouts(config)], "response": [bound_answer, _note_response]}
    http = httpx2.AsyncClient(event_hooks=hooks, follow_redirects=True)
    options = types.HttpOptions(
        base_url=config.base_url, api_version=config.api_version, httpx_async_client=http
    )
    if config.api_key:
        key = config.api_key.get_secret_value()
    else:
        key = None
    # Not enterprise: variables for Google Cloud in the environment must not change the server.
    return GeminiClient(Client(enterprise=False, api_key=key, http_options=options), http)


async def _note_response(response: httpx2.Response) -> None:
    opened = _opened.get()
    if opened is not None:
        opened.append(response)


def _timeouts(config: GeminiConfig) -> Any:
    """Return a hook that sets the timeouts of a request."""
    # The SDK has a single timeout, and sends it to the server as a limit for the whole answer.
    idle = config.idle_timeout_seconds
    connect = config.connect_timeout_seconds

    async def set_timeouts(request: httpx2.Request) -> None:
        limits = {"connect": connect, "pool": connect, "read": idle, "write": idle}
        request.extensions["timeout"] = limits

    return set_timeouts
