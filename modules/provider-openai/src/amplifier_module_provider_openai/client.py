"""The requests this provider makes, through the SDK's client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amplifier_kit.calls.lazy_client import bound_answer
from amplifier_kit.calls.prices import load_price_data
from amplifier_module_provider_openai.config import DEFAULT_BASE_URL, OpenAIConfig

if TYPE_CHECKING:
    import httpx2
    import openai

# Of a request, what the counting of its tokens takes.
_COUNTED = ("model", "input", "instructions", "tools", "tool_choice", "reasoning", "text")


@dataclass(frozen=True, slots=True)
class ResponsesClient:
    """Posts JSON through the SDK's client.

    Its own `responses.create` compares every item with every type of item: for a history of 500
    items the event loop would stand still for more than half a second.
    """

    sdk: openai.AsyncOpenAI
    whole: type[httpx2.Response]
    events: type[openai.AsyncStream[object]]

    async def create(self, parameters: dict[str, Any]) -> httpx2.Response:
        """Return the whole answer."""
        return await self.sdk.post("/responses", cast_to=self.whole, body=parameters)

    async def stream(self, parameters: dict[str, Any]) -> openai.AsyncStream[object]:
        """Return the answer as its events, each a dict; whoever gets it closes it."""
        body = {**parameters, "stream": True}
        return await self.sdk.post(
            "/responses", cast_to=object, body=body, stream=True, stream_cls=self.events
        )

    async def count(self, parameters: dict[str, Any]) -> int:
        """Return how many tokens the request has."""
        body = {key: parameters[key] for key in _COUNTED if key in parameters}
        counted = await self.sdk.post("/responses/input_tokens", cast_to=self.whole, body=body)
        return counted.json()["input_tokens"]

    async def models(self) -> list[str]:
        """Return the ids of the models that the server has."""
        return [model.id async for model in self.sdk.models.list()]

    async def close(self) -> None:
        """Close all connections."""
        await self.sdk.close()


def make_client(config: OpenAIConfig) -> ResponsesClient:
    """Import the SDK and return a client; takes a second or more, so do it in a thread."""
    import httpx2  # noqa: PLC0415 - heavy
    import openai  # noqa: PLC0415 - heavy

    load_price_data()
    sdk = openai.AsyncOpenAI(
        api_key=config.api_key.get_secret_value() if config.api_key else None,
        base_url=config.base_url or DEFAULT_BASE_URL,
        timeout=openai.Timeout(config.idle_timeout_seconds, connect=config.connect_timeout_seconds),
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [bound_answer]}),
    )
    _ = sdk.models  # The SDK imports it when it is first asked for: better here than on the loop.
    return ResponsesClient(sdk, httpx2.Response, openai.AsyncStream[object])
