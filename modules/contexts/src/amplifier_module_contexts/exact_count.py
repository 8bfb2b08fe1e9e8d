"""The exact count: a view's tokens as the provider's own counter has them."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_core.errors import describe_error
from amplifier_core.message_models import ChatRequest
from amplifier_kit.history_repair import repair_history
from amplifier_module_contexts.announcer import Announcer
from amplifier_module_contexts.compaction import View

logger = logging.getLogger(__name__)

COUNT_FAILED = "context:count_failed"

# No tokenizer makes more tokens than there are bytes, nor UTF-8 more than 4 bytes of a character.
_MOST_TOKENS_PER_CHAR = 4


class ExactCount:
    """Asks a provider's `count_tokens(request)`, and only when the answer can make a difference.

    What was counted once bounds every view that only grew since; while the bound fits, nothing is
    asked. A counter that fails is announced, and the estimate has to do.
    """

    __slots__ = ("_announcer", "_counter", "_failing", "_lineage", "_size", "_tokens")

    def __init__(self, announcer: Announcer) -> None:
        self._announcer = announcer
        self._counter: Any = None
        self._lineage: tuple[int, ...] = ()
        self._size = self._tokens = 0
        self._failing = False

    def forget(self) -> None:
        """Forget the last count: the history is another one."""
        self._counter = None

    async def exceeds(self, view: View, budget: int, provider: Any) -> int | None:
        """Return the view's tokens when they are more than `budget`."""
        count: Any = getattr(provider, "count_tokens", None)
        if count is None or view.size * _MOST_TOKENS_PER_CHAR <= budget:
            return None
        if self._counter == count and self._lineage == view.lineage:
            grown = (view.size - self._size) * _MOST_TOKENS_PER_CHAR
            if grown >= 0 and self._tokens + grown <= budget:
                return None
        try:
            messages, _ = repair_history(view.messages)
            self._tokens = int(await count(ChatRequest.model_validate({"messages": messages})))
        except Exception as error:
            logger.exception("token counter failed")
            await self._announce_failure(error)
            return None
        self._counter = count
        self._lineage = view.lineage
        self._size = view.size
        self._failing = False
        if self._tokens > budget:
            return self._tokens
        return None

    async def _announce_failure(self, error: Exception) -> None:
        # Once, until it works again: the same line before every request would not be read.
        if not self._failing:
            self._failing = True
            reason = describe_error(error)
            line = f"The provider cannot count tokens ({reason}); requests are fitted by estimate."
            await self._announcer.tell(COUNT_FAILED, {"error": reason}, line)
