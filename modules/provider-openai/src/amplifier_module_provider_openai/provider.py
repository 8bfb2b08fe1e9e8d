"""The provider for OpenAI's models over the Responses API."""

from __future__ import annotations

from functools import partial
from typing import Any

from amplifier_core.capabilities import JSON_MODE, STREAMING, THINKING, TOOLS, VISION
from amplifier_core.message_models import ChatRequest, ChatResponse, ToolCall
from amplifier_core.models import ConfigField, ModelInfo, ProviderInfo
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_kit.calls.lazy_client import LazyClient
from amplifier_kit.calls.messages import Converted, overridden, repaired
from amplifier_kit.calls.model_calls import Call, ModelCalls
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_kit.calls.rate_limits import rate_limits
from amplifier_module_provider_openai.client import ResponsesClient, make_client
from amplifier_module_provider_openai.config import (
    DEFAULT_BASE_URL,
    KEY_VARIABLE,
    URL_VARIABLE,
    OpenAIConfig,
)
from amplifier_module_provider_openai.failures import PROVIDER, translate
from amplifier_module_provider_openai.from_wire import chat_response, read_answer
from amplifier_module_provider_openai.models import Limits, can_think, for_answers, limits_of
from amplifier_module_provider_openai.to_wire import items_of, shortfalls_of, wire_of

_CAPABILITIES = [TOOLS, STREAMING, VISION, JSON_MODE]
_CONFIG_FIELDS = [
    ConfigField(
        id="api_key",
        display_name="API key",
        field_type="secret",
        prompt="Your OpenAI API key",
        env_var=KEY_VARIABLE,
    ),
    ConfigField(
        id="base_url",
        display_name="Base URL",
        prompt="Address of the API",
        required=False,
        env_var=URL_VARIABLE,
        default=DEFAULT_BASE_URL,
    ),
]
_LIMITS = "x-ratelimit-"


class OpenAIProvider:
    """Uses the Responses API without its storage: each request has the whole conversation."""

    name = PROVIDER

    def __init__(self, config: OpenAIConfig, coordinator: Any) -> None:
        self.priority = config.priority
        self.client: LazyClient[ResponsesClient] = LazyClient(partial(make_client, config))
        self.calls = ModelCalls(PROVIDER, config, coordinator, translate, PROVIDER)
        self._config = config
        self._coordinator = coordinator
        self._converted = Converted(partial(items_of, origin=config.origin))

    def get_info(self) -> ProviderInfo:
        """Describe the provider, with the limits of its default model."""
        model = self._config.default_model
        return ProviderInfo(
            id=self.name,
            display_name="OpenAI",
            credential_env_vars=[KEY_VARIABLE],
            capabilities=_capabilities(model),
            defaults={"model": model, **self._limits(model)},
            config_fields=_CONFIG_FIELDS,
        )

    async def list_models(self) -> list[ModelInfo]:
        """Return the models that generate answers; for a server other than OpenAI's, all."""
        with self.calls.translated():
            found = await (await self.client.get()).models()
        return [
            ModelInfo(id=m, display_name=m, capabilities=_capabilities(m), **self._limits(m))
            for m in for_answers(found, self._config.origin)
        ]

    async def count_tokens(self, request: ChatRequest, **kwargs: Any) -> int:
        """Return how many tokens the vendor counts in a request."""
        call = self._prepare(request, kwargs)
        with self.calls.translated(call.model):
            return await (await self.client.get()).count(call.parameters)

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the calls of a response."""
        return calls_in_response(response)

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the model's answer; keyword arguments replace fields of the request.

        Raises:
            LLMError: the vendor or the transport failed.
        """
        call = self._prepare(request, kwargs)
        return await self.calls.make(call, partial(self._attempt, call))

    def _prepare(self, request: ChatRequest, arguments: dict[str, Any]) -> Call:
        request, ignored = overridden(request, arguments, provider=PROVIDER)
        messages, repairs = repaired(request.messages)
        request = request.model_copy(update={"messages": messages})
        session_id = getattr(self._coordinator, "session_id", None) or ""
        wire, prefix = wire_of(request, self._config, self._converted, session_id)
        return Call(
            model=wire["model"],
            request=request,
            parameters=wire,
            streaming=self.calls.wants_stream(request),
            prefix=prefix,
            repairs=repairs,
            shortfalls=[*ignored, *shortfalls_of(request)],
        )

    async def _attempt(self, call: Call, blocks: BlockStream | None) -> ChatResponse:
        client = await self.client.get()
        limit: int | None = call.parameters.get("max_output_tokens")
        facts: dict[str, Any] = {"model": call.model, "origin": self._config.origin, "limit": limit}
        if blocks is None:
            answer = await client.create(call.parameters)
            call.rate_limits = rate_limits(answer.headers, _LIMITS)
            return chat_response(answer.json(), **facts)
        async with await client.stream(call.parameters) as events:
            call.rate_limits = rate_limits(events.response.headers, _LIMITS)
            return chat_response(await read_answer(events, blocks, call.model), **facts)

    def _limits(self, model: str) -> dict[str, Any]:
        given = self._config.model_dump(include=set(Limits._fields), exclude_none=True)
        return {**limits_of(model)._asdict(), **given}


def _capabilities(model: str) -> list[str]:
    if can_think(model):
        return [*_CAPABILITIES, THINKING]
    return list(_CAPABILITIES)
