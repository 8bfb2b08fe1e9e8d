"""The model calls of a turn, and the provider that makes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_core import events
from amplifier_core.llm_errors import ContextLengthError, LLMError
from amplifier_core.message_models import ChatRequest, ChatResponse, ResponseFormat, ToolCall
from amplifier_kit.valid_text import valid
from amplifier_module_loops.announcer import Announcer
from amplifier_module_loops.requests import Composer, RequestCache
from amplifier_module_loops.tool_calls import first_calls, report_dropped


def select_provider(providers: dict[str, Any], preferred: str | None) -> tuple[str, Any]:
    """Return the preferred provider, else the one with the lowest priority number."""
    if preferred is not None and preferred in providers:
        return preferred, providers[preferred]
    if not providers:
        raise RuntimeError("No providers mounted")
    name = min(providers, key=lambda each: _priority(providers[each]))
    return name, providers[name]


def default_model(provider: Any) -> str | None:
    """Return the model that a provider uses by default, if it declares one."""
    defaults: dict[str, Any] = provider.get_info().defaults
    return defaults.get("model")


def failure_facts(provider_name: str, error: Exception) -> dict[str, Any]:
    """Return the data of `provider:error` for a failed call."""
    failure = {"type": type(error).__name__, "msg": str(error)}
    facts: dict[str, Any] = {"provider": provider_name, "error": failure}
    if isinstance(error, LLMError):
        facts |= {"retryable": error.retryable, "status_code": error.status_code}
    return facts


def _priority(provider: Any) -> int:
    own = getattr(provider, "priority", None)
    if own is None:
        settings: Any = getattr(provider, "config", None) or {}
        own = settings.get("priority")
    return 100 if own is None else own


AskModel = Callable[[Any, ChatRequest, dict[str, Any], Any], Awaitable[ChatResponse]]
"""Calls a model; takes the provider, the request, keywords for the provider, and the hooks."""

_MOST_OVERFLOWS = 3


def complete(
    provider: Any, request: ChatRequest, options: dict[str, Any], hooks: Any
) -> Awaitable[ChatResponse]:
    """Call a model by `complete`."""
    return provider.complete(request, **options)


class ModelCalls:
    """Makes the model calls of one turn; `answer` is the text of the latest one."""

    def __init__(
        self,
        kept: RequestCache,
        context: Any,
        announcer: Announcer,
        hooks: Any,
        ask_model: AskModel,
        options: dict[str, Any],
        max_calls: int,
    ) -> None:
        """`options` are keywords for the providers; up to `max_calls` of an answer are accepted."""
        self._composer = Composer(kept, context, announcer)
        self._context = context
        self._announcer = announcer
        self._hooks = hooks
        self._ask_model = ask_model
        self._options = options
        self._max_calls = max_calls
        self.answer = ""
        self.count = 0
        self.finish_reason: str | None = None

    async def make(
        self,
        name: str,
        provider: Any,
        tools: dict[str, Any],
        response_format: ResponseFormat | None,
    ) -> list[ToolCall]:
        """Send the history, store the answer and return its tool calls."""
        self.count += 1
        announcer = self._announcer
        try:
            request = await self._composer.compose(name, provider, tools, response_format)
            try:
                response = await self._ask_model(provider, request, self._options, self._hooks)
            except ContextLengthError as error:
                response = await self._send_smaller(name, provider, request, error)
        except Exception as error:
            await announcer.tell(events.PROVIDER_ERROR, failure_facts(name, error))
            raise
        # Only now: a request that is shortened and sent again needs them, too.
        announcer.injections.clear()
        # A provider written without the kit may return lone surrogates, which UTF-8 cannot encode.
        response = valid(response)
        calls: list[ToolCall] = provider.parse_tool_calls(response)
        total = len(calls)
        if total > self._max_calls:
            response, calls = first_calls(response, calls, self._max_calls)
        await self._announce(name, response, calls)
        await self._context.add_message(self._read(response, calls))
        if len(calls) < total:
            await report_dropped(announcer, total, len(calls))
        return calls

    async def _send_smaller(
        self, name: str, provider: Any, request: ChatRequest, error: ContextLengthError
    ) -> ChatResponse:
        """Send a shorter request than one that was too long; never the same one again."""
        for _ in range(_MOST_OVERFLOWS):
            smaller = await self._composer.shrink(name, provider, request)
            if smaller is None:
                break
            request = smaller
            try:
                return await self._ask_model(provider, request, self._options, self._hooks)
            except ContextLengthError as still:
                error = still
        raise error

    async def _announce(self, name: str, response: ChatResponse, calls: list[ToolCall]) -> None:
        announcer = self._announcer
        usage = response.usage
        total = len(response.content)
        facts = {"response": response, "usage": usage, "tool_calls": bool(calls)}
        await announcer.ask(events.PROVIDER_RESPONSE, {"provider": name, **facts})
        if not (
            announcer.hears(events.CONTENT_BLOCK_START) or announcer.hears(events.CONTENT_BLOCK_END)
        ):
            return
        for index, block in enumerate(response.content):
            place = {"block_index": index, "total_blocks": total}
            await announcer.tell(events.CONTENT_BLOCK_START, {"block_type": block.type, **place})
            await announcer.tell(
                events.CONTENT_BLOCK_END, {**place, "block": block, "usage": usage}
            )

    def _read(self, response: ChatResponse, calls: list[ToolCall]) -> dict[str, Any]:
        """Keep text and finish reason of the answer, and return the message to store."""
        content: list[dict[str, Any]] = []
        texts: list[str] = []
        for block in response.content:
            content.append(block.model_dump(exclude_none=True))
            if block.type == "text":
                texts.append(block.text)
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = [
                {"id": call.id, "tool": call.name, "arguments": {**call.arguments}}
                for call in calls
            ]
        if response.metadata:
            message["metadata"] = response.metadata
        self.answer = "\n\n".join(texts)
        self.finish_reason = response.finish_reason
        return message
