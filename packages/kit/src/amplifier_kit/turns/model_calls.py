"""Asking the model: a request that fits, the answer announced and stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_core import events
from amplifier_core.llm_errors import ContextLengthError
from amplifier_core.message_models import ChatRequest, ChatResponse, ResponseFormat, ToolCall
from amplifier_kit.turns.announcer import Announcer
from amplifier_kit.turns.providers import failure_facts
from amplifier_kit.turns.requests import Composer, Draft, Kept

AskModel = Callable[[Any, ChatRequest, dict[str, Any], Any], Awaitable[ChatResponse]]
"""Calls a model; takes the provider, the request, keywords for the provider, and the hooks."""

_ANSWER_EVENTS = (events.PROVIDER_RESPONSE, events.CONTENT_BLOCK_START, events.CONTENT_BLOCK_END)
_THINKING: dict[str, Any] = {"extended_thinking": True}
_NO_OPTIONS: dict[str, Any] = {}
_MOST_OVERFLOWS = 3


async def complete(
    provider: Any, request: ChatRequest, options: dict[str, Any], hooks: Any
) -> ChatResponse:
    """Call a model the plain way."""
    return await provider.complete(request, **options)


class ModelCalls:
    """Makes the model calls of one turn; `answer` is the text of the latest one."""

    __slots__ = (
        "_announcer",
        "_ask_model",
        "_composer",
        "_context",
        "_hooks",
        "_options",
        "answer",
        "count",
        "finish_reason",
    )

    def __init__(
        self, kept: Kept, context: Any, announcer: Announcer, hooks: Any, ask_model: AskModel
    ) -> None:
        self._composer = Composer(kept, context, announcer)
        self._context = context
        self._announcer = announcer
        self._hooks = hooks
        self._ask_model = ask_model
        self.answer = ""
        self.count = 0
        self.finish_reason: str | None = None

    async def make(
        self,
        name: str,
        provider: Any,
        tools: dict[str, Any],
        response_format: ResponseFormat | None,
        *,
        thinking: bool,
    ) -> list[ToolCall]:
        """Send the history, store the answer and return the calls it makes."""
        self.count += 1
        options = _THINKING if thinking else _NO_OPTIONS
        try:
            draft = await self._composer.compose(name, provider, tools, response_format)
            try:
                response = await self._ask_model(provider, draft.request, options, self._hooks)
            except ContextLengthError as error:
                response = await self._send_smaller(draft, options, error)
        except Exception as error:
            await self._announcer.tell(events.PROVIDER_ERROR, failure_facts(name, error))
            raise
        if self._announcer.pending is not None:
            self._announcer.pending.clear()
        calls: list[ToolCall] = provider.parse_tool_calls(response)
        if any(map(self._announcer.hears, _ANSWER_EVENTS)):
            await self._announce(name, response, calls)
        await self._store(response, calls)
        return calls

    async def _send_smaller(
        self, draft: Draft, options: dict[str, Any], error: ContextLengthError
    ) -> ChatResponse:
        """Send what fits better than a request that was too long; never the same one again."""
        smaller: Draft | None = draft
        for _ in range(_MOST_OVERFLOWS):
            smaller = await self._composer.shrink(smaller)
            if smaller is None:
                break
            try:
                return await self._ask_model(
                    smaller.provider, smaller.request, options, self._hooks
                )
            except ContextLengthError as still:
                error = still
        raise error

    async def _announce(self, name: str, response: ChatResponse, calls: list[ToolCall]) -> None:
        announcer, usage, total = self._announcer, response.usage, len(response.content)
        facts = {"response": response, "usage": usage, "tool_calls": bool(calls)}
        await announcer.ask(events.PROVIDER_RESPONSE, {"provider": name, **facts})
        for index, block in enumerate(response.content):
            place = {"block_index": index, "total_blocks": total}
            await announcer.tell(events.CONTENT_BLOCK_START, {"block_type": block.type, **place})
            await announcer.tell(
                events.CONTENT_BLOCK_END, {**place, "block": block, "usage": usage}
            )

    async def _store(self, response: ChatResponse, calls: list[ToolCall]) -> None:
        content = [block.model_dump(exclude_none=True) for block in response.content]
        message: dict[str, Any] = {"role": "assistant", "content": content}
        made = [{"id": c.id, "tool": c.name, "arguments": {**c.arguments}} for c in calls]
        if made:
            message["tool_calls"] = made
        if response.metadata:
            message["metadata"] = response.metadata
        self.answer = "\n\n".join([b.text for b in response.content if b.type == "text"])
        self.finish_reason = response.finish_reason
        await self._context.add_message(message)
