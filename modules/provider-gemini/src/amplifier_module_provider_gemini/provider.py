"""The provider for Gemini."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_core.capabilities import JSON_MODE, STREAMING, THINKING, TOOLS, VISION
from amplifier_core.llm_errors import InvalidRequestError
from amplifier_core.message_models import ChatRequest, ChatResponse, ToolCall
from amplifier_core.models import ConfigField, ModelInfo, ProviderInfo
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_kit.calls.lazy_client import LazyClient
from amplifier_kit.calls.messages import Converted, overridden, repaired
from amplifier_kit.calls.model_calls import Call, ModelCalls
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_kit.calls.prefix import Prefix
from amplifier_module_provider_gemini.client import GeminiClient, make_client
from amplifier_module_provider_gemini.config import KEY_VARIABLES, GeminiConfig
from amplifier_module_provider_gemini.failures import PROVIDER, translate
from amplifier_module_provider_gemini.from_wire import Draft, read_stream
from amplifier_module_provider_gemini.options import Model, Options, declaration
from amplifier_module_provider_gemini.to_wire import Content, Conversion, assemble

_CAPABILITIES = [TOOLS, STREAMING, VISION, JSON_MODE]
_KEY_FIELD = ConfigField(
    id="api_key",
    display_name="API key",
    field_type="secret",
    prompt="Your Gemini API key",
    env_var=KEY_VARIABLES[0],
)


class GeminiProvider:
    """Gemini over the Gemini API."""

    name = PROVIDER

    def __init__(self, config: GeminiConfig, coordinator: Any) -> None:
        self._config = config
        self.priority = config.priority
        self.client: LazyClient[GeminiClient] = LazyClient(lambda: make_client(config))
        self.calls = ModelCalls(self.name, config, coordinator, translate, "google")
        self._converted: Converted[Content] = Converted(Conversion())

    def get_info(self) -> ProviderInfo:
        """Describe the provider, with the limits of its default model."""
        model = Model(self._config.default_model)
        return ProviderInfo(
            id=self.name,
            display_name="Google Gemini",
            credential_env_vars=list(KEY_VARIABLES),
            capabilities=[*_CAPABILITIES, THINKING],
            defaults={
                "model": model.name,
                "context_window": self._config.context_window or model.context_window,
                "max_output_tokens": self._config.max_output_tokens or model.max_output_tokens,
            },
            config_fields=[_KEY_FIELD],
        )

    async def list_models(self) -> list[ModelInfo]:
        """Return the vendor's models that can answer; raises LLMError."""
        with self.calls.translated():
            models = (await self.client.get()).models
            found = [each async for each in await models.list(config={"page_size": 1_000})]
        return [_info(m) for m in found if "generateContent" in (m.supported_actions or ())]

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the calls of a response."""
        return calls_in_response(response)

    async def count_tokens(self, request: ChatRequest, **kwargs: Any) -> int:
        """Return how many tokens the vendor counts in a request, tools and system included."""
        call = self._prepare(request, kwargs)
        contents = call.parameters["contents"]
        config = call.parameters["config"]
        head = {key: config[key] for key in ("systemInstruction", "tools") if key in config}
        whole = {"model": f"models/{call.model}", "contents": contents, **head}
        # The API can count a whole request; the SDK's method sends only its contents.
        body: dict[str, Any] = {"contents": [], "generateContentRequest": whole}
        with self.calls.translated(call.model):
            models = (await self.client.get()).models
            extra = {"http_options": {"extra_body": body}}
            answer = await models.count_tokens(model=call.model, contents=contents, config=extra)
        return answer.total_tokens or 0

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the model's answer; keyword arguments override fields of the request."""
        call = self._prepare(request, kwargs)

        async def attempt(stream: BlockStream | None) -> ChatResponse:
            client = await self.client.get()
            draft = Draft(call.model)
            if stream is not None:
                try:
                    async with client.stream(call.parameters) as chunks:
                        return await read_stream(chunks, draft, stream)
                except asyncio.CancelledError:
                    call.partial = draft.partial(offers_tools=bool(call.request.tools))
                    raise
            for part in draft.take(await client.models.generate_content(**call.parameters)):
                draft.add(part)
            return draft.response()

        return await self.calls.make(call, attempt)

    def _prepare(self, request: ChatRequest, arguments: dict[str, Any]) -> Call:
        request, ignored = overridden(request, arguments, provider=self.name)
        model = Model(request.model or self._config.default_model)
        messages, repairs = repaired(request.messages)
        contents = self._converted(messages)
        system, turns = assemble(contents, pictures_in_results=model.is_current)
        if not turns:
            raise InvalidRequestError("A request needs more than system texts", provider=self.name)
        options = Options(request, self._config, model)
        for lost in [each for content in contents for each in content.lost]:
            options.fall_short(lost, "a text in its place", "Gemini cannot read it")
        config = options.wire()
        if system:
            config["systemInstruction"] = {"parts": system}
        tools = [(f"tool {tool.name}", declaration(tool)) for tool in request.tools or ()]
        head = [("options", {"model": model.name}), *tools, ("system", system)]
        return Call(
            model=model.name,
            request=request,
            parameters={"model": model.name, "contents": turns, "config": config},
            streaming=self.calls.wants_stream(request),
            prefix=Prefix(head, list(contents), messages),
            repairs=repairs,
            shortfalls=[*ignored, *options.shortfalls],
        )


def _info(model: Any) -> ModelInfo:
    known = Model(model.name)
    return ModelInfo(
        id=known.name,
        display_name=model.display_name or known.name,
        context_window=model.input_token_limit or known.context_window,
        max_output_tokens=model.output_token_limit or known.max_output_tokens,
        capabilities=[*_CAPABILITIES, THINKING] if model.thinking else _CAPABILITIES,
    )
