"""A context: stores every message of a conversation, and fits a view of them to each request."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from amplifier_core import events
from amplifier_core.hooks import HookRegistry
from amplifier_core.llm_errors import ContextLengthError
from amplifier_module_contexts.announcer import Announcer
from amplifier_module_contexts.compaction import Compaction, ExactCount, View
from amplifier_module_contexts.config import MemoryConfig
from amplifier_module_contexts.history import History
from amplifier_module_contexts.sizes import Calibration, message_size
from amplifier_module_contexts.spill import Blobs, Spill

logger = logging.getLogger(__name__)

SPILLED = "context:spilled"
BLOB_DROPPED = "context:blob_dropped"

# Tokens that stay free for what the estimate cannot know.
SAFETY_MARGIN = 1_000


class FittingContext:
    """Stores all messages; returns those that fit.

    The stored messages are never compacted. They are not copied: a caller that changes one
    afterwards changes the history, and its size is not measured again. With `blobs`, only excerpts
    of large tool results are stored, after `clean`. Events go to `hooks`, and messages for the
    user to `coordinator`'s display.
    """

    name: ClassVar[str] = "context"

    def __init__(
        self,
        config: MemoryConfig,
        *,
        hooks: HookRegistry | None = None,
        coordinator: Any = None,
        blobs: Blobs | None = None,
        clean: Callable[[str], str] | None = None,
    ) -> None:
        self.config = config
        self.max_tokens = config.max_tokens
        self.compact_threshold = config.compact_threshold
        self.calibration = Calibration(config.chars_per_token)
        self.announcer = Announcer(hooks, coordinator, self.name)
        if blobs is None or config.spill_chars is None:
            self.spill = None
        else:
            self.spill = Spill(blobs, config.spill_chars, clean)
        self.tools: list[Any] = []
        self._exact_count = ExactCount(self.announcer)
        self._announced: tuple[int, ...] = ()
        self._prompt_factory: Callable[[], Awaitable[str]] | None = None
        if config.instructions:
            self._prompt_factory = self._configured_prompt
        self._prompt: dict[str, Any] = {}
        self._use(History([]))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The stored messages themselves; only append to the list, or assign another one."""
        return self._history.messages

    @messages.setter
    def messages(self, messages: list[dict[str, Any]]) -> None:
        self._use(History(messages))

    def set_system_prompt_factory(self, factory: Callable[[], Awaitable[str]] | None) -> None:
        """Let `factory` write the system prompt of every request.

        It replaces a system message at the top of the history, else it comes before all others.
        """
        self._prompt_factory = factory

    async def _configured_prompt(self) -> str:
        return self.config.instructions

    async def add_message(self, message: dict[str, Any]) -> None:
        """Append one message; raises ValueError if it has no role or cannot be measured."""
        message = await self._reduced(message)
        self._history.measure(message)
        self._history.messages.append(message)

    async def get_messages(self) -> list[dict[str, Any]]:
        """Return copies of all stored messages; the caller may change them."""
        return [message.copy() for message in self.messages]

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace all stored messages; replaces nothing if one of them is not valid."""
        history = History(list(messages))
        history.measure()
        self._announced = ()
        self._use(history)

    async def clear(self) -> None:
        """Forget everything."""
        self._announced = ()
        self._use(History([]))

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        """Return the messages that fit, in a new list.

        The budget is `token_budget`, else the provider's window without room for the answer, else
        `max_tokens`. If the provider counts tokens itself, its count decides.

        Raises:
            ContextLengthError: the system messages, the last user message and the running tool
                calls do not fit even with their texts cut.
        """
        if token_budget is not None:
            budget = token_budget
        else:
            budget = self._budget(provider)
        self.calibration.sent = None
        view = await self._fitting_view(budget, provider)
        self.calibration.sent = view.size
        # One event per compaction, not one per request that has the same view.
        if view.signature != self._announced:
            self._announced = view.signature
            if view.signature:
                await self._announce(view, budget)
        return view.messages.copy()

    async def should_compact(self) -> bool:
        """Return whether a request with the configured budget would be compacted."""
        self._history.measure()
        room = self.calibration.chars(self.max_tokens)
        return self._history.total > room * self.compact_threshold

    async def compact(self) -> None:
        """Do nothing: each request is compacted, the stored messages never are."""

    # The names that the kernel's suite for contexts calls.
    _should_compact = should_compact
    _compact_internal = compact

    async def history_view(self, budget: int, provider: Any) -> View:
        """Return a view of the stored messages that fits `budget` tokens by estimate."""
        history = self._history
        history.measure()
        if history.total <= self.calibration.chars(budget) * self.compact_threshold:
            return View(history.messages, history.total, 0, 0, (), (history.restarts,))
        asked = (len(history.messages), history.restarts, budget, self.calibration.factor)
        if self._view is None or self._view_of != asked:
            self._view = self._compaction.view(budget, self.calibration)
            self._view_of = asked
        return self._view

    @property
    def _compaction(self) -> Compaction:
        """Builds the views; created on first use, as most sessions never exceed their window."""
        if self._made_compaction is None:
            self._made_compaction = Compaction(self._history, self.config)
        return self._made_compaction

    async def _reduced(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the message with large results moved to blobs, and announce them."""
        if self.spill is None or not isinstance(message, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may pass anything
            return message
        message, spilled = await self.spill.reduce(message)
        for handle, characters in spilled:
            facts = {"handle": handle, "characters": characters}
            origin = {
                "tool_name": message.get("name"),
                "tool_call_id": message.get("tool_call_id"),
            }
            await self.announcer.tell(SPILLED, {**facts, **origin})
        dropped: list[str] = getattr(self.spill.blobs, "dropped", [])
        while spilled and dropped:
            handle = dropped.pop(0)
            line = f"{handle} is no longer kept whole: the results put aside outgrew `blob_bytes`."
            await self.announcer.tell(BLOB_DROPPED, {"handle": handle}, line)
        return message

    async def _fitting_view(self, budget: int, provider: Any) -> View:
        """Return a view that fits `budget` by the provider's own count, if it has one."""
        # Each count that is too large raises the factor; from the second time on by at least a
        # quarter, so that the loop ends even with a counter that never agrees.
        factor = self.calibration.factor
        least = 1.0
        while True:
            try:
                view = await self._view_with_prompt(budget, provider)
            except ContextLengthError:
                # The raised factor would make every later request too small as well.
                self.calibration.forget_counts()
                self.calibration.factor = factor
                raise
            tokens = await self._exact_count.exceeds(view, budget, provider)
            if tokens is None:
                return view
            self.calibration.raise_to(max(view.size, 1), tokens, least=least)
            least = 1.25

    async def _view_with_prompt(self, budget: int, provider: Any) -> View:
        if self._prompt_factory is None:
            return await self.history_view(budget, provider)
        text = await self._prompt_factory()
        if self._prompt.get("content") != text:
            self._prompt = {"role": "system", "content": text}
        size = message_size(self._prompt)
        view = await self.history_view(budget - self.calibration.tokens(size), provider)
        if self.messages[:1] == view.messages[:1]:
            replaced = self.messages[:1]
        else:
            replaced = []
        behind = 1 if replaced and replaced[0]["role"] == "system" else 0
        messages = [self._prompt, *view.messages[behind:]]
        return view._replace(messages=messages, size=view.size + size)

    def _estimate_tokens(self, messages: list[dict[str, Any]]) -> int:
        """Return the tokens of these messages; the published persistent context calls this."""
        return self.calibration.tokens(sum(map(message_size, messages)))

    def _use(self, history: History) -> None:
        self._history = history
        self._made_compaction: Compaction | None = None
        self._view: View | None = None
        self._view_of: tuple[int, int, int, float] | None = None
        self._exact_count.forget()
        self.calibration.forget_counts()

    def _budget(self, provider: Any | None) -> int:
        """Return the tokens that the provider's window leaves for messages, else `max_tokens`."""
        try:
            defaults: Any = {} if provider is None else provider.get_info().defaults
            window = defaults.get("context_window")
            output = defaults.get("max_output_tokens")
        except Exception:
            logger.exception("provider did not describe itself; the budget is max_tokens")
            return self.max_tokens
        told = isinstance(window, int) and isinstance(output, int) and window and output
        if told:
            return window - output - SAFETY_MARGIN
        return self.max_tokens

    async def _announce(self, view: View, budget: int) -> None:
        messages = len(self.messages)
        tokens = self.calibration.tokens(self._history.total)
        left = len(view.messages)
        used = self.calibration.tokens(view.size)
        tell = self.announcer.tell
        before = {"message_count": messages, "token_count": tokens}
        await tell(events.CONTEXT_PRE_COMPACT, before)
        await tell(events.CONTEXT_POST_COMPACT, {"message_count": left, "token_count": used})
        stats = {
            "before_messages": messages,
            "before_tokens": tokens,
            "after_messages": left,
            "after_tokens": used,
            "budget": budget,
            "messages_dropped": view.dropped,
            "messages_shortened": view.shortened,
        }
        await tell(events.CONTEXT_COMPACTION, stats)
