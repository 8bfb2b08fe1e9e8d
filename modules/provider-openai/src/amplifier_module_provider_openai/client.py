"""Send requests through the SDK's client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amplifier_kit.calls.lazy_client import bound_answer
from amplifier_kit.calls.prices import load_price_data
from amplifier_module_provider_openai.config import DEFAULT_BASE_URL, OpenAIConfig

if TYPE_CHECKING:
    import httpx2
    import openai

# Parameters of a request that the endpoint for counting tokens accepts.
_COUNTED = ("model", "input", "instructions", "tools", "tool_choice", "reasoning", "text")


@dataclass(frozen=True, slots=True)
class ResponsesClient:
    """Posts JSON through the SDK's client.

    The SDK's `responses.create` matches every item against every item type: for a history of 500
    items this blocks the event loop for more than half a second.
    """

    sdk: openai.AsyncOpenAI
    whole: type[httpx2.Response]
    events: type[openai.AsyncStream[object]]

    async def create(self, parameters: dict[str, Any]) -> httpx2.Response:
        """Return the complete answer."""
        return await self.sdk.post("/responses", cast_to=self.whole, body=parameters)

    async def stream(self, parameters: dict[str, Any]) -> openai.AsyncStream[object]:
        """Return the events of the answer, each a dict; the caller closes the stream."""
        body = {**parameters, "stream": True}
        return await self.sdk.post(
            "/responses", cast_to=object, body=body, stream=True, stream_cls=self.events
        )

    async def count(self, parameters: dict[str, Any]) -> int:
        """Return the number of input tokens of a request."""
        body = {key: parameters[key] for key in _COUNTED if key in parameters}
        counted = await self.sdk.post("/responses/input_tokens", cast_to=self.whole, body=body)
        return counted.json()["input_tokens"]

    async def models(self) -> list[str]:
        """Return the ids of the server's models."""
        return [model.id async for model in self.sdk.models.list()]

    async def close(self) -> None:
        """Close all connections."""
        await self.sdk.close()


def make_client(config: OpenAIConfig) -> ResponsesClient:
    """Import the SDK and return a client; takes a second or more, so call it in a thread."""
    import httpx2  # noqa: PLC0415 - heavy
    import openai  # noqa: PLC0415 - heavy

    load_price_data()
    sdk = openai.AsyncOpenAI(
        api_key=config.api_key.get_secret_value() if config.api_key else None,
        base_url=config.base_url or DEFAULT_BASE_URL,
        timeout=openai.Timeout(config.idle_timeout_seconds, connect=config.connect_timeout_seconds),
        max_retries=0,  # The kit retries, and announces it.
        http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [bound_answer]}),
    )
    _ = sdk.models  # The SDK imports it lazily: better here than on the event loop.
    return ResponsesClient(sdk, httpx2.Response, openai.AsyncStream[object])
