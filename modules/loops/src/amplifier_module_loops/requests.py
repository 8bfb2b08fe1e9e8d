"""The requests of a turn: messages and tools that fit the model's window."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any

from amplifier_core import events
from amplifier_core.interfaces import accepts, input_schema_of
from amplifier_core.llm_errors import ContextLengthError
from amplifier_core.message_models import ChatRequest, Message, ResponseFormat, ToolSpec
from amplifier_kit.tokens import CHARS_PER_TOKEN, Window, window_of
from amplifier_kit.turn_events import CONTEXT_OVERFLOW, CONTEXT_UNCOUNTED
from amplifier_module_loops.announcer import Announcer
from amplifier_module_loops.request_history import RequestHistory

logger = logging.getLogger(__name__)


class ToolSpecs:
    """Builds tool descriptions, and rebuilds one only if its tool has changed."""

    def __init__(self) -> None:
        # Description, schema and the specification built from them, by tool name.
        self._known: dict[str, tuple[str, dict[str, Any], ToolSpec]] = {}

    def describe(self, tools: dict[str, Any]) -> list[ToolSpec]:
        """Return the description of each tool, in the order they are mounted."""
        specs: list[ToolSpec] = []
        for tool in tools.values():
            name = tool.name
            description = tool.description
            schema = input_schema_of(tool)
            known = self._known.get(name)
            if known is None or known[0] != description or known[1] != schema:
                spec = ToolSpec(name=name, description=description, parameters=schema)
                # `spec.parameters` is a copy, so that a schema that is changed in place is noticed.
                known = self._known[name] = (description, spec.parameters, spec)
            specs.append(known[2])
        return specs


# The overhead of a message besides its text.
_MESSAGE_CHARS = 16


class Sizes:
    """Estimates tokens; of a list that has grown, only the new messages are measured."""

    __slots__ = ("_chars", "_count", "_last", "_specs", "_specs_tokens")

    def __init__(self) -> None:
        self._chars = self._count = self._specs_tokens = 0
        self._last: Message | None = None
        self._specs: list[ToolSpec] = []

    def tokens(self, messages: list[Message]) -> int:
        """Return an estimate of the tokens of these messages."""
        count = self._count
        if not count or len(messages) < count or messages[count - 1] is not self._last:
            count = self._chars = 0
        self._chars += sum(map(_chars, messages[count:]))
        self._count = len(messages)
        self._last = messages[-1] if messages else None
        return self._chars // CHARS_PER_TOKEN

    def tokens_of_tools(self, specs: list[ToolSpec]) -> int:
        """Return an estimate of the tokens of these descriptions."""
        if specs != self._specs:
            self._specs = specs
            chars = sum(len(spec.model_dump_json(exclude_none=True)) for spec in specs)
            self._specs_tokens = chars // CHARS_PER_TOKEN
        return self._specs_tokens


def _chars(message: Message) -> int:
    content = message.content
    if isinstance(content, str):
        return len(content) + _MESSAGE_CHARS
    return _MESSAGE_CHARS + sum(len(block.model_dump_json(exclude_none=True)) for block in content)


# Above this share of the window, the estimate is too rough and the provider counts.
_COUNT_ABOVE = 0.6
_SMALLER = 0.7
_TRIES = 3


class Reader:
    """The context window of a provider, as far as known."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider
        self.window = window_of(provider)
        # The budget of the last request that was shortened, for all later ones.
        self.ceiling: int | None = None


class RequestCache:
    """What a loop caches between requests, because it seldom changes."""

    def __init__(self) -> None:
        self.history = RequestHistory()
        self.tool_specs = ToolSpecs()
        self.sizes = Sizes()
        self._readers: dict[str, Reader] = {}
        self._context: Any = None
        self._takes_provider = True

    def reader(self, name: str, provider: Any) -> Reader:
        """Return the window of a provider, which is asked for it on first use."""
        known = self._readers.get(name)
        if known is None or known.provider is not provider:
            before = known
            known = Reader(provider)
            if before is not None and before.window == known.window:
                known.ceiling = before.ceiling
            self._readers[name] = known
        return known

    def budget(self, reader: Reader, specs: list[ToolSpec] | None) -> int | None:
        """Return the tokens left for messages beside `specs`; None if that is not known."""
        window = reader.window
        ceiling = reader.ceiling
        if window is None:
            return ceiling
        budget = window.budget(self.sizes.tokens_of_tools(specs or []))
        if ceiling is None:
            return budget
        return min(budget, ceiling)

    def takes_provider(self, context: Any) -> bool:
        """Whether a context takes the provider; those written to the published contract do not."""
        if context is not self._context:
            self._context = context
            self._takes_provider = accepts(context.get_messages_for_request, "provider")
        return self._takes_provider


class Composer:
    """Builds the requests of one turn."""

    def __init__(self, kept: RequestCache, context: Any, announcer: Announcer) -> None:
        self._kept = kept
        self._context = context
        self._announcer = announcer
        self._takes_provider = kept.takes_provider(context)

    def compose(
        self,
        provider_name: str,
        provider: Any,
        tools: dict[str, Any],
        response_format: ResponseFormat | None = None,
    ) -> Awaitable[ChatRequest]:
        """Return an awaitable of the next request to this provider.

        Raises:
            ContextLengthError: the context cannot return few enough messages to fit.
        """
        kept = self._kept
        specs = kept.tool_specs.describe(tools) if tools else None
        reader = kept.reader(provider_name, provider)
        if reader.window is None:
            return self._request(provider, specs, reader.ceiling, response_format)
        request = self._request(provider, specs, kept.budget(reader, specs), response_format)
        if callable(getattr(provider, "count_tokens", None)):
            return self._counted(provider_name, provider, request, reader.window)
        return request

    async def shrink(
        self, provider_name: str, provider: Any, request: ChatRequest
    ) -> ChatRequest | None:
        """Return a smaller request than one that was too long; None if there is none."""
        return await self._smaller(
            provider_name, provider, request, _SMALLER, self._tokens(request)
        )

    async def _request(
        self,
        provider: Any,
        specs: list[ToolSpec] | None,
        budget: int | None,
        response_format: ResponseFormat | None,
    ) -> ChatRequest:
        arguments: dict[str, Any] = {} if budget is None else {"token_budget": budget}
        if self._takes_provider:
            arguments["provider"] = provider
        stored = await self._context.get_messages_for_request(**arguments)
        messages, repairs = self._kept.history.prepare(stored)
        if repairs:
            told = {"repairs": [repair._asdict() for repair in repairs]}
            await self._announcer.tell(events.CONTEXT_REPAIRED, told)
        self._announcer.injections.apply(messages)
        return ChatRequest(messages=messages, tools=specs, response_format=response_format)

    def _tokens(self, request: ChatRequest) -> int:
        sizes = self._kept.sizes
        return sizes.tokens(request.messages) + sizes.tokens_of_tools(request.tools or [])

    async def _counted(
        self, provider_name: str, provider: Any, wanted: Awaitable[ChatRequest], window: Window
    ) -> ChatRequest:
        """Return the request, or a smaller one that fits by the provider's own count."""
        request = await wanted
        if self._tokens(request) <= _COUNT_ABOVE * window.size:
            return request
        exact = 0
        for _ in range(_TRIES):
            exact = await self._count(provider_name, provider, request)
            if exact <= window.room:
                return request
            smaller = await self._smaller(
                provider_name, provider, request, window.room / exact, exact
            )
            if smaller is None:
                break
            request = smaller
        raise ContextLengthError(
            f"The request has {exact} tokens where {window.room} fit, and the memory made it no "
            "smaller; it was not sent.",
            provider=provider_name,
        )

    async def _count(self, provider_name: str, provider: Any, request: ChatRequest) -> int:
        """Return the provider's count, or 0 if it fails: then the request is sent by estimate."""
        name = provider_name
        try:
            return await provider.count_tokens(request)
        except Exception as error:
            logger.exception("provider did not count tokens provider=%s", name)
            facts = {"provider": name, "error": {"type": type(error).__name__, "msg": str(error)}}
            line = f"`{name}` could not count the request's tokens; it is sent by estimate."
            await self._announcer.warn(CONTEXT_UNCOUNTED, facts, line)
            return 0

    async def _smaller(
        self,
        provider_name: str,
        provider: Any,
        request: ChatRequest,
        factor: float,
        attempted: int,
    ) -> ChatRequest | None:
        """Ask the context for fewer tokens until it returns fewer; None if it does not."""
        kept = self._kept
        name = provider_name
        before = kept.sizes.tokens(request.messages)
        reader = kept.reader(name, provider)
        given = kept.budget(reader, request.tools)
        budget = before if given is None else min(before, given)
        for _ in range(_TRIES):
            budget = int(budget * factor)
            # The first factor may be the measured ratio, close to 1; later tries have to cut more.
            factor = min(factor, _SMALLER)
            smaller = await self._request(
                provider, request.tools, max(1, budget), request.response_format
            )
            if kept.sizes.tokens(smaller.messages) < before:
                # Kept for later requests, which would be too long in the same way.
                reader.ceiling = max(1, budget)
                facts = {"provider": name, "attempted_tokens": attempted, "new_budget": budget}
                line = f"The request was too long for `{name}`; older messages are left out of it."
                await self._announcer.warn(CONTEXT_OVERFLOW, facts, line)
                return smaller
        return None
