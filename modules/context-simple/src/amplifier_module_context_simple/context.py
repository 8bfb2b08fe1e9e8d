"""The memory: every message of a conversation, and a view of them that fits each request."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_core import events
from amplifier_core.hooks import HookRegistry
from amplifier_module_context_simple.calibration import Calibration
from amplifier_module_context_simple.compaction import History, View
from amplifier_module_context_simple.config import ContextConfig
from amplifier_module_context_simple.size import message_size

logger = logging.getLogger(__name__)

# Tokens that stay free for what an estimate cannot know.
SAFETY_MARGIN = 1_000


class SimpleContextManager:
    """Keeps all messages; hands out those that fit.

    Takes the keys of `ContextConfig` as keywords. What is stored is never compacted, and messages
    are stored as they are given: whoever changes one afterwards changes it without being noticed.
    """

    def __init__(self, *, hooks: HookRegistry | None = None, **settings: Any) -> None:
        self.config = ContextConfig.model_validate(settings)
        self.max_tokens = self.config.max_tokens
        self.compact_threshold = self.config.compact_threshold
        self.calibration = Calibration(self.config.chars_per_token)
        self._hooks = hooks
        self._announced: tuple[int, ...] | None = None
        self._use(History([]))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The stored messages themselves; only ever append to them, or set another list."""
        return self._history.messages

    @messages.setter
    def messages(self, messages: list[dict[str, Any]]) -> None:
        self._use(History(messages))

    async def add_message(self, message: dict[str, Any]) -> None:
        """Append one message; a ValueError says that it has no role or cannot be measured."""
        self._history.measure(message)
        self._history.messages.append(message)

    async def get_messages(self) -> list[dict[str, Any]]:
        """Return everything that is stored, in a new list."""
        return self.messages.copy()

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace everything that is stored; nothing is replaced if `add_message` would raise."""
        history = History(list(messages))
        history.measure()
        self._announced = None
        self._use(history)

    async def clear(self) -> None:
        """Forget everything."""
        self._announced = None
        self._use(History([]))

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        """Return the messages that fit, in a new list.

        The budget is `token_budget`, else what the provider's window leaves beside its answer,
        else `max_tokens`.

        Raises:
            ContextLengthError: not even the system messages, the last user message and the
                running tool calls fit, however short their texts are cut.
        """
        budget = token_budget if token_budget is not None else self._budget(provider)
        history = self._history
        history.measure()
        if history.total <= self.calibration.chars(budget) * self.compact_threshold:
            self._announced = None
            self.calibration.sent = history.total
            return history.messages.copy()
        asked = (len(history.messages), budget, self.calibration.factor)
        if self._view is None or self._view_of != asked:
            self._view = history.view(budget, self.config, self.calibration)
            self._view_of = asked
        view = self._view
        self.calibration.sent = view.size
        if view.signature != self._announced:
            self._announced = view.signature
            await self._announce(view, budget)
        return view.messages.copy()

    async def should_compact(self) -> bool:
        """Return whether a request with the configured budget would be compacted."""
        self._history.measure()
        room = self.calibration.chars(self.max_tokens)
        return self._history.total > room * self.compact_threshold

    async def compact(self) -> None:
        """Do nothing: requests are compacted when they are made, and what is stored never is."""

    # The names by which the suite for contexts knows these two.
    _should_compact = should_compact
    _compact_internal = compact

    def _estimate_tokens(self, messages: list[dict[str, Any]]) -> int:
        """Return the tokens of these messages; the published persistent context asks for it."""
        return self.calibration.tokens(sum(map(message_size, messages)))

    def _use(self, history: History) -> None:
        self._history = history
        self._view: View | None = None
        self._view_of: tuple[int, int, float] | None = None

    def _budget(self, provider: Any | None) -> int:
        """Return the tokens that the provider's window leaves for messages, if it tells."""
        try:
            defaults: Any = {} if provider is None else provider.get_info().defaults
            window, output = defaults.get("context_window"), defaults.get("max_output_tokens")
        except Exception:
            logger.exception("provider did not describe itself; the budget is max_tokens")
            return self.max_tokens
        told = isinstance(window, int) and isinstance(output, int) and window and output
        return window - output - SAFETY_MARGIN if told else self.max_tokens

    async def _announce(self, view: View, budget: int) -> None:
        if self._hooks is None:
            return
        messages, tokens = len(self.messages), self.calibration.tokens(self._history.total)
        left, used = len(view.messages), self.calibration.tokens(view.size)
        emit = self._hooks.emit
        await emit(events.CONTEXT_PRE_COMPACT, {"message_count": messages, "token_count": tokens})
        await emit(events.CONTEXT_POST_COMPACT, {"message_count": left, "token_count": used})
        stats = {
            "before_messages": messages,
            "before_tokens": tokens,
            "after_messages": left,
            "after_tokens": used,
            "budget": budget,
            "messages_dropped": view.dropped,
            "messages_shortened": view.shortened,
        }
        await emit(events.CONTEXT_COMPACTION, stats)
