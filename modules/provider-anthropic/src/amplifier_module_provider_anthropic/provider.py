"""The provider for the Messages API."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from amplifier_core.capabilities import JSON_MODE, STREAMING, THINKING, TOOLS, VISION
from amplifier_core.message_models import ChatRequest, ChatResponse, Degradation, ToolCall
from amplifier_core.models import ConfigField, ModelInfo, ProviderInfo
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_kit.calls.lazy_client import LazyClient, bound_answer
from amplifier_kit.calls.messages import Converted, overridden, repaired, split_system
from amplifier_kit.calls.model_calls import Call, ModelCalls
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_kit.calls.prefix import Prefix
from amplifier_kit.calls.prices import load_price_data
from amplifier_kit.calls.rate_limits import rate_limits
from amplifier_module_provider_anthropic import to_wire
from amplifier_module_provider_anthropic.config import (
    KEY_VARIABLE,
    MAX_OUTPUT_TOKENS,
    AnthropicConfig,
)
from amplifier_module_provider_anthropic.failures import translate
from amplifier_module_provider_anthropic.from_wire import read_stream, to_response
from amplifier_module_provider_anthropic.options import Options, only_given, traits_of
from amplifier_module_provider_anthropic.to_wire import Wire

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_CAPABILITIES = [TOOLS, STREAMING, THINKING, VISION, JSON_MODE]
_KEY_FIELD = ConfigField(
    id="api_key",
    display_name="API key",
    field_type="secret",
    prompt="Your Anthropic API key",
    env_var=KEY_VARIABLE,
)
_LIMITS = "anthropic-ratelimit-"
_ONLY_JSON: Wire = {"type": "text", "text": "Answer with one JSON value and no other text."}
# Parameters that the endpoint for counting tokens does not accept.
_NOT_COUNTED = ("max_tokens", "stop_sequences", "metadata", "extra_body")
_PAUSED = Degradation(
    requested="a finished answer",
    actual="one that the vendor paused",
    reason="its own tools took too long; the next turn continues from here",
)


class AnthropicProvider:
    """Claude, over the vendor's SDK."""

    name = "anthropic"

    def __init__(self, config: AnthropicConfig, coordinator: Any) -> None:
        self._config = config
        self.priority = config.priority
        self.client = LazyClient(self._make_client)
        self.calls = ModelCalls(self.name, config, coordinator, translate, price_vendor=self.name)
        # Other servers of this format return thinking without a signature.
        self._wired = Converted(partial(to_wire.wired, keep_unsigned=config.base_url is not None))

    def get_info(self) -> ProviderInfo:
        """Describe the vendor and the configured model."""
        model = self._config.default_model
        window = self._config.context_window
        defaults = {
            "model": model,
            "context_window": window or traits_of(model).context_window,
            "max_output_tokens": self._config.max_output_tokens or MAX_OUTPUT_TOKENS,
        }
        return ProviderInfo(
            id=self.name,
            display_name="Anthropic",
            credential_env_vars=[KEY_VARIABLE],
            capabilities=_CAPABILITIES,
            defaults=defaults,
            config_fields=[_KEY_FIELD],
        )

    async def list_models(self) -> list[ModelInfo]:
        """Return the models that the account can use, newest first; raises `LLMError`."""
        with self.calls.translated():
            client = await self.client.get()
            found = [model async for model in client.models.list(limit=1_000)]
        return [
            ModelInfo(
                id=model.id,
                display_name=model.display_name or model.id,
                context_window=model.max_input_tokens or traits_of(model.id).context_window,
                max_output_tokens=model.max_tokens or MAX_OUTPUT_TOKENS,
                capabilities=_CAPABILITIES,
            )
            for model in found
        ]

    async def count_tokens(self, request: ChatRequest, **kwargs: Any) -> int:
        """Return how many tokens the vendor counts in a request; raises `LLMError`."""
        client = await self.client.get()
        call = self._prepare(request, kwargs)
        sent = call.parameters
        counted = {name: sent[name] for name in sent if name not in _NOT_COUNTED}
        with self.calls.translated(call.model):
            return (await client.messages.count_tokens(**counted)).input_tokens

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the calls of a response."""
        return calls_in_response(response)

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the model's answer, or raise an `LLMError`; keywords override the request."""
        client = await self.client.get()
        call = self._prepare(request, kwargs)

        async def attempt(stream: BlockStream | None) -> ChatResponse:
            message = await _send(client, call, stream)
            response = to_response(message, call.model)
            if message.get("stop_reason") == "pause_turn":
                call.shortfalls.append(_PAUSED)
            return response

        return await self.calls.make(call, attempt)

    def _prepare(self, request: ChatRequest, arguments: dict[str, Any]) -> Call:
        request, ignored = overridden(request, arguments, provider=self.name)
        messages, repairs = repaired(request.messages)
        opening, rest = split_system(messages)
        system = to_wire.system_prompt(opening)
        body = self._wired(rest)
        spoken = to_wire.conversation(body)
        tools = [to_wire.wired_tool(tool) for tool in request.tools or ()]
        options = Options(request, self._config, spoken)
        for what in [what for each in body for what in each.lost]:
            options.fall_short(what, "words in its place", "the vendor does not take it")
        shaping = {"model": options.model, **options.cached}
        named = [(f"tool {tool['name']}", tool) for tool in tools]
        head = [("options", shaping), *named, ("system", system)]
        if self._config.prompt_caching:
            tools = to_wire.mark_last(tools)
            system = to_wire.mark_last(system)
            spoken = to_wire.mark_conversation(spoken)
        if request.response_format is not None and request.response_format.type == "json":
            system = [*system, _ONLY_JSON]
            options.fall_short(
                "JSON", "an instruction to answer in JSON", "the vendor has no JSON mode"
            )
        given = only_given(tools=tools, system=system)
        return Call(
            model=options.model,
            request=request,
            parameters={**shaping, **options.others, **given, "messages": spoken},
            streaming=self.calls.wants_stream(request),
            prefix=Prefix(head, [each.content for each in body], rest),
            repairs=repairs,
            shortfalls=[*ignored, *options.shortfalls],
        )

    def _make_client(self) -> AsyncAnthropic:
        from anthropic import (  # noqa: PLC0415 - heavy; runs in a thread
            AsyncAnthropic,
            DefaultAsyncHttpxClient,
            Timeout,
        )

        load_price_data()
        config = self._config
        asked = {"anthropic-version": config.api_version, "anthropic-beta": ",".join(config.betas)}
        client = AsyncAnthropic(
            api_key=config.api_key.get_secret_value() if config.api_key else None,
            base_url=config.base_url,
            default_headers=only_given(**asked),
            timeout=Timeout(config.idle_timeout_seconds, connect=config.connect_timeout_seconds),
            max_retries=0,  # The kit retries, and announces it.
            http_client=DefaultAsyncHttpxClient(event_hooks={"response": [bound_answer]}),
        )
        # The SDK imports these lazily: better here, in a thread, than on the event loop.
        _ = client.messages.with_raw_response, client.models
        return client


async def _send(client: AsyncAnthropic, call: Call, announce: BlockStream | None) -> Wire:
    """Return the vendor's answer; with `announce`, streamed."""
    if announce is None:
        send: Any = client.messages.with_raw_response.create
        raw = await send(**call.parameters)
        call.rate_limits = rate_limits(raw.headers, _LIMITS)
        return await raw.json()
    stream = await client.messages.create(**call.parameters, stream=True)
    async with stream:
        call.rate_limits = rate_limits(stream.response.headers, _LIMITS)
        # Raw events: the SDK skips events without a name, even if they can be read.
        return await read_stream(stream.raw_events(stream.response), announce, call)
