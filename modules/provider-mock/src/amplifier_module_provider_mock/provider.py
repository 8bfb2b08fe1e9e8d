"""The mock provider: answers without a model, and emits the events of a real one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from typing import Any

from amplifier_core import capabilities, events
from amplifier_core.correlation import new_request_id
from amplifier_core.hooks import HookRegistry
from amplifier_core.llm_errors import InvalidRequestError, LLMError
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    ContentBlockUnion,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from amplifier_core.models import ModelInfo, ProviderInfo
from amplifier_kit.calls.block_stream import BlockStream, stream_response
from amplifier_kit.calls.model_calls import announced_usage
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_kit.tokens import estimate_tokens
from amplifier_module_provider_mock.answers import answers_for
from amplifier_module_provider_mock.config import MockConfig, Step

_CAPABILITIES = [capabilities.TOOLS, capabilities.STREAMING, capabilities.LOCAL]


class MockProvider:
    """A deterministic provider: the same requests always get the same answers."""

    name = "mock"

    def __init__(
        self,
        config: MockConfig,
        hooks: HookRegistry | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
        new_id: Callable[[], str] = new_request_id,
    ) -> None:
        self._config = config
        self.priority = config.priority
        self.cost_usd = Decimal(0)
        self._answers = answers_for(config)
        self._hooks = hooks
        self._clock = clock
        self._new_id = new_id
        self._calls = 0

    def get_info(self) -> ProviderInfo:
        """Describe the mock and its limits."""
        limits = self._config.model_dump(include={"model", "context_window", "max_output_tokens"})
        return ProviderInfo(
            id=self.name,
            display_name="Mock",
            capabilities=_CAPABILITIES,
            defaults=limits,
        )

    async def list_models(self) -> list[ModelInfo]:
        """Return the only model."""
        return [
            ModelInfo(
                id=self._config.model,
                display_name="Mock model",
                context_window=self._config.context_window,
                max_output_tokens=self._config.max_output_tokens,
                capabilities=_CAPABILITIES,
            )
        ]

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the calls of a response."""
        return calls_in_response(response)

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the next answer, after the configured delay.

        Raises:
            LLMError: the scripted error, or a ConfigurationError at the end of the script or
                recording.
        """
        if not isinstance(request, ChatRequest):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not checked
            raise InvalidRequestError(
                f"A request is a ChatRequest, not a {type(request).__name__}", provider=self.name
            )
        call = {
            "provider": self.name,
            "model": kwargs.get("model") or request.model or self._config.model,
            "request_id": self._new_id(),
        }
        messages = len(request.messages)
        await self._emit(events.LLM_REQUEST, {**call, "message_count": messages})
        started = self._clock()
        try:
            response = await self._answer(request, call)
        except LLMError as error:
            failure = {"type": type(error).__name__, "msg": str(error)}
            outcome = {"status": "error", "error": failure}
            await self._emit(events.LLM_RESPONSE, {**call, **self._timed(started), **outcome})
            raise
        outcome = {"status": "ok", **self._account(response.usage)}
        await self._emit(events.LLM_RESPONSE, {**call, **self._timed(started), **outcome})
        return response

    async def _answer(self, request: ChatRequest, call: dict[str, Any]) -> ChatResponse:
        answer = self._answers.next(request)
        step = answer if isinstance(answer, Step) else Step()
        await asyncio.sleep(self._config.delay_seconds + step.delay_seconds)
        if isinstance(answer, Step):
            response = self._respond(step, request)
        else:
            response = answer
        error = step.error and step.error.build(provider=self.name, model=call["model"])
        wanted = self._config.stream and (request.metadata or {}).get("stream") is not False
        if wanted and self._hooks is not None:
            await _stream(response, error, BlockStream(self._hooks, call["request_id"]))
        if error is not None:
            raise error
        return response

    def _respond(self, step: Step, request: ChatRequest) -> ChatResponse:
        calls = [
            ToolCall(
                id=each.id or self._next_call_id(request),
                name=each.name,
                # A copy: a tool may change its input, and a repeated step is played again.
                arguments=deepcopy(each.arguments),
            )
            for each in step.tool_calls
        ]
        content: list[ContentBlockUnion] = []
        if step.thinking is not None:
            content.append(ThinkingBlock(thinking=step.thinking))
        if step.text is not None:
            content.append(TextBlock(text=step.text))
        content += [ToolCallBlock(id=c.id, name=c.name, input=c.arguments) for c in calls]
        return ChatResponse(
            content=content,
            tool_calls=calls or None,
            usage=_usage(step, request, content),
            finish_reason="tool_calls" if calls else "stop",
        )

    def _next_call_id(self, request: ChatRequest) -> str:
        """Return an id that is new in the conversation, even if that was resumed."""
        # The counter starts at 0 in each process; the results show how many ids are in use.
        results = sum(message.role == "tool" for message in request.messages)
        self._calls = max(self._calls, results) + 1
        return f"call_{self._calls}"

    def _account(self, usage: Usage | None) -> dict[str, Any]:
        """Add the cost to the total, and return the usage for the event; recordings may lack it."""
        if usage is None:
            return {}
        self.cost_usd += usage.cost_usd or 0
        return {"usage": announced_usage(usage)}

    def _timed(self, started: float) -> dict[str, Any]:
        return {"duration_ms": round((self._clock() - started) * 1_000)}

    async def _emit(self, event: str, data: dict[str, Any]) -> None:
        if self._hooks is not None:
            await self._hooks.emit(event, data)


async def _stream(response: ChatResponse, error: LLMError | None, stream: BlockStream) -> None:
    """Announce the answer; with an error, abort the stream at its end."""
    try:
        await stream_response(response, stream)
        if error is not None:
            raise error
    except BaseException as broken:
        await stream.abort(broken)
        raise


def _usage(step: Step, request: ChatRequest, content: list[ContentBlockUnion]) -> Usage:
    """Return the scripted usage, with estimates for missing values; the default cost is zero."""
    asked = estimate_tokens(request.messages, request.tools)
    answered = estimate_tokens(content)
    given = step.usage.model_dump(exclude_none=True)
    tokens: dict[str, Any] = {
        "input_tokens": asked,
        "output_tokens": answered,
        "cost_usd": Decimal(0),
        **given,
    }
    return Usage(**tokens, total_tokens=tokens["input_tokens"] + tokens["output_tokens"])
