"""Making requests out of what is remembered, each of a size that the model can read."""

from __future__ import annotations

import inspect
import logging
from typing import Any, NamedTuple

from amplifier_core import events
from amplifier_core.history import RequestHistory
from amplifier_core.llm_errors import ContextLengthError
from amplifier_core.message_models import ChatRequest, Message, ResponseFormat, ToolSpec
from amplifier_kit.turns.announcer import Announcer
from amplifier_kit.turns.tool_specs import ToolSpecs
from amplifier_kit.turns.vocabulary import CONTEXT_OVERFLOW, CONTEXT_UNCOUNTED
from amplifier_kit.turns.window import Sizes, Window, window_of

logger = logging.getLogger(__name__)

# Above this share of the window an estimate is not good enough.
_COUNT_ABOVE = 0.6
_SMALLER = 0.7
_TRIES = 3
_NO_MESSAGES: list[Message] = []


class Kept:
    """What a loop keeps from one request to the next, because it seldom changes."""

    __slots__ = (
        "_context",
        "_takes_provider",
        "_windows",
        "ceilings",
        "history",
        "sizes",
        "tool_specs",
    )

    def __init__(self) -> None:
        self.history = RequestHistory()
        self.tool_specs = ToolSpecs()
        self.sizes = Sizes()
        # By provider: the window it told, and the budget that turned out to fit into it.
        self.ceilings: dict[str, tuple[Window | None, int]] = {}
        self._windows: dict[str, tuple[Any, Window | None]] = {}
        self._context: Any = None
        self._takes_provider = True

    def window_of(self, name: str, provider: Any) -> Window | None:
        """Return the window of a provider, which tells it when it is first used."""
        known = self._windows.get(name)
        if known is None or known[0] is not provider:
            known = self._windows[name] = (provider, window_of(provider))
        return known[1]

    def takes_provider(self, context: Any) -> bool:
        """Whether a memory wants to know the provider; those written to the seed do not."""
        if context is not self._context:
            parameters = inspect.signature(context.get_messages_for_request).parameters
            anything = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
            self._context, self._takes_provider = context, anything or "provider" in parameters
        return self._takes_provider


class Draft(NamedTuple):
    """A request, what it was made of, and the tokens its messages were given, if that is known."""

    provider_name: str
    provider: Any
    specs: list[ToolSpec]
    budget: int | None
    request: ChatRequest


class Composer:
    """Makes the requests of one turn."""

    __slots__ = ("_announcer", "_context", "_kept")

    def __init__(self, kept: Kept, context: Any, announcer: Announcer) -> None:
        self._kept = kept
        self._context = context
        self._announcer = announcer

    async def compose(
        self,
        provider_name: str,
        provider: Any,
        tools: dict[str, Any],
        response_format: ResponseFormat | None = None,
    ) -> Draft:
        """Return the next request to this provider.

        Raises:
            ContextLengthError: the memory cannot give so few messages that they fit.
        """
        kept = self._kept
        specs = kept.tool_specs.describe(tools) if tools else []
        window = kept.window_of(provider_name, provider)
        ceiling = kept.ceilings.get(provider_name) if kept.ceilings else None
        budget = None if window is None else window.budget(kept.sizes.tokens_of_tools(specs))
        if ceiling is not None and ceiling[0] == window:
            budget = ceiling[1] if budget is None else min(budget, ceiling[1])
        request = await self._request(provider, specs, budget, response_format)
        draft = Draft(provider_name, provider, specs, budget, request)
        if window is not None and callable(getattr(provider, "count_tokens", None)):
            return await self._counted(draft, window)
        return draft

    async def shrink(self, draft: Draft) -> Draft | None:
        """Return a smaller request than one that was too long; None when there is none."""
        return await self._smaller(draft, _SMALLER, self._tokens(draft))

    async def _request(
        self,
        provider: Any,
        specs: list[ToolSpec],
        budget: int | None,
        response_format: ResponseFormat | None,
    ) -> ChatRequest:
        arguments: dict[str, Any] = {} if budget is None else {"token_budget": budget}
        if self._kept.takes_provider(self._context):
            arguments["provider"] = provider
        stored = await self._context.get_messages_for_request(**arguments)
        messages, repairs = self._kept.history.prepare(stored)
        if repairs:
            told = {"repairs": [repair._asdict() for repair in repairs]}
            await self._announcer.tell(events.CONTEXT_REPAIRED, told)
        if self._announcer.pending is not None:
            self._announcer.pending.apply(messages)
        request = ChatRequest(messages=_NO_MESSAGES, tools=specs or None)
        # They are validated; to do so again would take the longer the more there are.
        request.messages = messages
        if response_format is not None:
            request.response_format = response_format
        return request

    def _tokens(self, draft: Draft) -> int:
        sizes = self._kept.sizes
        return sizes.tokens(draft.request.messages) + sizes.tokens_of_tools(draft.specs)

    async def _counted(self, draft: Draft, window: Window) -> Draft:
        """Return the draft, or a smaller one that fits by the provider's own count."""
        if self._tokens(draft) <= _COUNT_ABOVE * window.size:
            return draft
        exact = 0
        for _ in range(_TRIES):
            exact = await self._count(draft)
            if exact <= window.room:
                return draft
            smaller = await self._smaller(draft, window.room / exact, exact)
            if smaller is None:
                break
            draft = smaller
        raise ContextLengthError(
            f"The request has {exact} tokens where {window.room} fit, and the memory made it no "
            "smaller; it was not sent.",
            provider=draft.provider_name,
        )

    async def _count(self, draft: Draft) -> int:
        """Return the provider's count; 0 when it fails, for the provider then has the last word."""
        name = draft.provider_name
        try:
            return await draft.provider.count_tokens(draft.request)
        except Exception as error:
            logger.exception("provider did not count tokens provider=%s", name)
            facts = {"provider": name, "error": {"type": type(error).__name__, "msg": str(error)}}
            line = f"`{name}` could not count the request's tokens; it is sent by estimate."
            await self._announcer.warn(CONTEXT_UNCOUNTED, facts, line)
            return 0

    async def _smaller(self, draft: Draft, factor: float, attempted: int) -> Draft | None:
        """Ask the memory for less, until it really is less; None when it gives no less."""
        name, sizes = draft.provider_name, self._kept.sizes
        before = sizes.tokens(draft.request.messages)
        budget = before if draft.budget is None else min(before, draft.budget)
        for _ in range(_TRIES):
            budget, factor = int(budget * factor), min(factor, _SMALLER)
            request = await self._request(
                draft.provider, draft.specs, max(1, budget), draft.request.response_format
            )
            if sizes.tokens(request.messages) < before:
                window = self._kept.window_of(name, draft.provider)
                self._kept.ceilings[name] = (window, max(1, budget))
                facts = {"provider": name, "attempted_tokens": attempted, "new_budget": budget}
                line = f"The request was too long for `{name}`; older messages are left out of it."
                await self._announcer.warn(CONTEXT_OVERFLOW, facts, line)
                return draft._replace(budget=budget, request=request)
        return None
