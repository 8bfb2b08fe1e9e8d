"""How much a model can read, and how much a request is."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from amplifier_core.message_models import Message, ToolSpec

logger = logging.getLogger(__name__)

# What English text and code come to with the usual vocabularies; other scripts need fewer.
CHARS_PER_TOKEN = 4

# Tokens that stay free for what an estimate cannot know.
_MARGIN = 1_000
# What every message costs beside its text.
_MESSAGE_CHARS = 16


class Window(NamedTuple):
    """The tokens a model can read, and how many of them are kept for its answer."""

    size: int
    reserve: int

    @property
    def room(self) -> int:
        """The tokens that a request may have."""
        return self.size - self.reserve

    def budget(self, tools: int) -> int:
        """Return the tokens left for messages beside `tools` tokens of tool descriptions."""
        return max(1, self.room - _MARGIN - tools)


def window_of(provider: Any) -> Window | None:
    """Return the window of the provider's model, when it tells one."""
    try:
        defaults: Any = provider.get_info().defaults
        size = defaults.get("context_window")
        reserve = defaults.get("max_output_tokens")
    except Exception:
        logger.exception("provider did not describe itself")
        return None
    if not isinstance(size, int) or size <= 0:
        return None
    return Window(size, reserve if isinstance(reserve, int) and 0 < reserve < size else 0)


class Sizes:
    """Estimates tokens; of a list that has grown, only what is new is looked at."""

    __slots__ = ("_chars", "_count", "_last", "_specs", "_specs_tokens")

    def __init__(self) -> None:
        self._chars = self._count = self._specs_tokens = 0
        self._last: Message | None = None
        self._specs: list[ToolSpec] = []

    def tokens(self, messages: list[Message]) -> int:
        """Return about how many tokens these messages have."""
        count = self._count
        if not count or len(messages) < count or messages[count - 1] is not self._last:
            count = self._chars = 0
        self._chars += sum(map(_chars, messages[count:]))
        self._count = len(messages)
        self._last = messages[-1] if messages else None
        return self._chars // CHARS_PER_TOKEN

    def tokens_of_tools(self, specs: list[ToolSpec]) -> int:
        """Return about how many tokens these descriptions have."""
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
