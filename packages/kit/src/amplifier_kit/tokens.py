"""How much a model can read."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

logger = logging.getLogger(__name__)

# What English text and code come to with the usual vocabularies; other scripts need fewer.
CHARS_PER_TOKEN = 4

# Tokens that stay free for what an estimate cannot know.
_MARGIN = 1_000


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
