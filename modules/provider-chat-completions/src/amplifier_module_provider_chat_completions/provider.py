"""The provider for one server: its actual context window, and calls to its models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from amplifier_core import capabilities
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.llm_errors import (
    AuthenticationError,
    ConfigurationError,
    NetworkError,
    StreamError,
)
from amplifier_core.message_models import ChatRequest, ChatResponse, Degradation, ToolCall
from amplifier_core.models import ConfigField, ModelInfo, ProviderInfo
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_kit.calls.lazy_client import LazyClient, bound_answer
from amplifier_kit.calls.messages import (
    Converted,
    extended_thinking,
    overridden,
    repaired,
    split_system,
    text_of,
)
from amplifier_kit.calls.model_calls import Call, ModelCalls
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_kit.calls.prefix import Prefix
from amplifier_module_provider_chat_completions import failures, probe, to_wire
from amplifier_module_provider_chat_completions.config import (
    KEY_VARIABLE,
    URL_VARIABLE,
    ChatCompletionsConfig,
)
from amplifier_module_provider_chat_completions.from_wire import Collector, field_of

if TYPE_CHECKING:
    from openai import AsyncOpenAI


async def _count_by_llama_cpp(client: AsyncOpenAI, root: str, parameters: dict[str, Any]) -> int:
    asked = {key: parameters[key] for key in ("messages", "tools") if key in parameters}
    templated = await client.post(f"{root}/apply-template", cast_to=object, body=asked)
    prompt = _expect(templated, "prompt", str)
    asked = {"content": prompt, "add_special": True, "parse_special": True}
    counted = await client.post(f"{root}/tokenize", cast_to=object, body=asked)
    return len(_expect(counted, "tokens", list))


async def _count_by_vllm(client: AsyncOpenAI, root: str, parameters: dict[str, Any]) -> int:
    asked = {key: parameters[key] for key in ("model", "messages", "tools") if key in parameters}
    counted = await client.post(f"{root}/tokenize", cast_to=object, body=asked)
    return _expect(counted, "count", int)


def _expect(answer: Any, key: str, kind: type[Any]) -> Any:
    value: Any = answer.get(key) if hasattr(answer, "get") else None
    if not isinstance(value, kind):
        raise StreamError(f"the server counted no tokens: its answer has no `{key}`")
    return value


# Functions that count the input tokens of a call, by kind of server.
COUNTERS = {"llama.cpp": _count_by_llama_cpp, "vllm": _count_by_vllm}


CONTEXT_WINDOW = "provider:context_window"
LARGE_SYSTEM_PROMPT = "provider:large_system_prompt"
OWN_EVENTS = (CONTEXT_WINDOW, LARGE_SYSTEM_PROMPT)

# A server without keys ignores it, but the SDK requires one.
_NO_KEY = "none"
# A system prompt above this share of the window leaves too little for a conversation.
_LARGE_SHARE = 0.5
_BYTES_PER_TOKEN = 4
# Expected length of an answer, if the configuration sets no limit.
_USUAL_OUTPUT_TOKENS = 4_096
_CAPABILITIES = [capabilities.TOOLS, capabilities.STREAMING, capabilities.JSON_MODE]
_CONFIG_FIELDS = [
    ConfigField(
        id="base_url",
        display_name="Server",
        prompt="URL of the server",
        env_var=URL_VARIABLE,
    ),
    ConfigField(
        id="api_key",
        display_name="API key",
        field_type="secret",
        prompt="Key, if the server wants one",
        required=False,
        env_var=KEY_VARIABLE,
    ),
    ConfigField(
        id="default_model",
        display_name="Model",
        prompt="Model (empty: the first one that the server lists)",
        required=False,
    ),
]
_NO_THINKING = Degradation(
    requested="extended_thinking",
    actual="what the server does by itself",
    reason="the format has no such field; `reasoning_effort` and `extra_body` may do instead",
)
_NO_PICTURES = Degradation(
    requested="pictures in results of tools",
    actual="words in their place",
    reason="results of tools are text only",
)
_NO_USAGE = Degradation(
    requested="usage",
    actual="none, so tokens and costs are unknown",
    reason="the server does not report it",
)


class ChatCompletionsProvider:
    """Access to the models of one server."""

    # Set only for servers that can count, llama.cpp and vLLM: contexts look whether it exists.
    count_tokens: Callable[..., Awaitable[int]]

    def __init__(self, config: ChatCompletionsConfig, coordinator: ModuleCoordinator) -> None:
        if config.base_url is None:
            raise ConfigurationError("`base_url` is missing", provider=config.name)
        self.name = config.name
        self.priority = config.priority
        self._config = config
        self._base_url = config.base_url
        if config.api_key:
            self._key = config.api_key.get_secret_value()
        else:
            self._key = None
        self._coordinator = coordinator
        self.client: LazyClient[AsyncOpenAI] = LazyClient(self._new_client)
        translate = partial(failures.translate, config.name)
        self.calls = ModelCalls(config.name, config, coordinator, translate, price_vendor=None)
        self._convert = Converted(partial(to_wire.convert, config=config))
        self._server = probe.Server(config.default_model)
        self._window = self._server.window(config.context_window)
        self._window_was_heard = False
        self._warned_of_system = False

    def get_info(self) -> ProviderInfo:
        """Describe the server, as far as it is known."""
        return ProviderInfo(
            id=self.name,
            display_name=f"Chat Completions ({self._base_url})",
            credential_env_vars=[KEY_VARIABLE],
            capabilities=_CAPABILITIES,
            defaults={"model": self._server.model, **self._limits(self._window.tokens)},
            config_fields=_CONFIG_FIELDS,
        )

    async def look_at_server(self) -> None:
        """Probe the server for its window and its first model; unknown values are assumed."""
        config = self._config
        self._server = await probe.probe(
            self._base_url, self._key, config.default_model, config.probe_timeout_seconds
        )
        self._window = self._server.window(config.context_window)
        if self._server.kind in COUNTERS:
            self.count_tokens = self._count_tokens
        if self._window.remark is not None:
            self.calls.tell_once(self._window.remark)
        self._window_was_heard = False
        await self._announce_window()

    async def list_models(self) -> list[ModelInfo]:
        """Return the models that the server lists."""
        with self.calls.translated():
            listed: Any = await (await self.client.get()).models.list()
        return [self._model_info(each) for each in field_of(listed, "data") or ()]

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the calls of a response."""
        return calls_in_response(response)

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Call the model once; keywords override fields of the request."""
        if not self._server.reached:
            # It may have been started after the mount. Without its window, a request could exceed
            # it, and servers drop the excess without an error.
            await self.look_at_server()
        await self._announce_window()
        call = self._prepare(request, kwargs)
        await self._watch_system(call)
        return await self.calls.make(call, partial(self._attempt, call))

    def _prepare(self, request: ChatRequest, arguments: dict[str, Any]) -> Call:
        request, shortfalls = overridden(request, arguments, provider=self.name)
        model = self._model_for(request)
        messages, repairs = repaired(request.messages)
        leading, rest = split_system(messages)
        # One text, because many chat templates use only the first system message.
        system = "\n\n".join(map(text_of, leading))
        wire = self._convert(rest)
        if system:
            opening = [{"role": "system", "content": system}]
        else:
            opening = []
        sent = [*opening, *(each for one in wire for each in one.messages)]
        parameters = to_wire.parameters(request, self._config, model, sent)
        tools = [(f"tool {each['function']['name']}", each) for each in parameters.get("tools", ())]
        options = (model, parameters.get("response_format"))
        prefix = Prefix([("options", options), *tools, ("system", system)], list(wire), rest)
        streaming = self.calls.wants_stream(request)
        if streaming:
            parameters["stream"] = True
            if self._config.stream_usage:
                parameters["stream_options"] = {"include_usage": True}
        if extended_thinking(request) is not None:
            shortfalls.append(_NO_THINKING)
        if any(each.lost_images for each in wire):
            shortfalls.append(_NO_PICTURES)
        return Call(
            model=model,
            request=request,
            parameters=parameters,
            streaming=streaming,
            prefix=prefix,
            repairs=repairs,
            shortfalls=shortfalls,
        )

    def _model_for(self, request: ChatRequest) -> str:
        model = request.model or self._server.model
        if model:
            return model
        if not self._server.reached:
            raise NetworkError(f"no answer from {self._base_url}", provider=self.name)
        if self._server.refuses_key:
            message = f"{self._base_url} refuses the key, or wants one"
            raise AuthenticationError(message, provider=self.name)
        message = "the server lists no model; set `default_model`"
        raise ConfigurationError(message, provider=self.name)

    async def _attempt(self, call: Call, announce: BlockStream | None) -> ChatResponse:
        completions: Any = (await self.client.get()).chat.completions
        collector = Collector(announce, self.name, call.model)
        if announce is None:
            await collector.take(await completions.create(**call.parameters))
        else:
            async with await completions.create(**call.parameters) as stream:
                async for chunk in stream:
                    await collector.take(chunk)
            if collector.answer.finish is not None:
                await announce.end_all()
        response = collector.answer.response(self.name, call.model)
        if response.usage is None:
            call.shortfalls.append(_NO_USAGE)
        return response

    async def _count_tokens(self, request: ChatRequest, **kwargs: Any) -> int:
        """Return the number of input tokens of `request`."""
        call = self._prepare(request, kwargs)
        count = COUNTERS[self._server.kind or ""]
        with self.calls.translated(call.model):
            client = await self.client.get()
            return await count(client, probe.server_root(self._base_url), call.parameters)

    async def _announce_window(self) -> None:
        """Emit the window until a handler is registered: hooks are mounted after providers."""
        if self._window_was_heard:
            return
        hooks = self._coordinator.hooks
        self._window_was_heard = hooks.has_handlers(CONTEXT_WINDOW)
        window = {"window": self._window.tokens, "source": self._window.source}
        facts = {"provider": self.name, "model": self._server.model, **window}
        await hooks.emit(CONTEXT_WINDOW, facts)

    async def _watch_system(self, call: Call) -> None:
        """Warn once if the system prompt alone takes most of the window."""
        if self._warned_of_system or call.model != self._server.model:
            return
        texts = [text_of(each) for each in call.request.messages if each.role == "system"]
        tokens = sum(len(text.encode()) for text in texts) // _BYTES_PER_TOKEN
        window = self._window.tokens
        if tokens <= window * _LARGE_SHARE:
            return
        self._warned_of_system = True
        facts = {"provider": self.name, "model": call.model, "tokens": tokens, "window": window}
        await self._coordinator.hooks.emit(LARGE_SYSTEM_PROMPT, facts)
        self.calls.tell_once(
            f"the system prompt alone takes about {tokens} of the {window} tokens that "
            f"`{call.model}` can read; little is left for the conversation"
        )

    def _model_info(self, listed: Any) -> ModelInfo:
        model_id = str(field_of(listed, "id"))
        window = probe.listed_window(listed.model_extra or {}) or probe.FALLBACK_WINDOW
        limits = self._limits(self._window.tokens if model_id == self._server.model else window)
        return ModelInfo(id=model_id, display_name=model_id, capabilities=_CAPABILITIES, **limits)

    def _limits(self, window: int) -> dict[str, Any]:
        output = self._config.max_output_tokens or min(_USUAL_OUTPUT_TOKENS, window // 4)
        return {"context_window": window, "max_output_tokens": output}

    def _new_client(self) -> AsyncOpenAI:
        import httpx2  # noqa: PLC0415 - heavy; runs in the client's thread
        import openai  # noqa: PLC0415 - heavy; runs in the client's thread

        silence = self._config.idle_timeout_seconds
        client = openai.AsyncOpenAI(
            api_key=self._key or _NO_KEY,
            base_url=self._base_url,
            timeout=httpx2.Timeout(silence, connect=self._config.connect_timeout_seconds),
            max_retries=0,  # The kit retries, and announces it.
            http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [bound_answer]}),
        )
        # The SDK imports these lazily: better here, in a thread, than on the event loop.
        _ = client.chat.completions, client.models
        return client
