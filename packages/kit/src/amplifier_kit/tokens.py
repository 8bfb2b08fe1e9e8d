"""The size of a model's context window, and of what is put into it."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

logger = logging.getLogger(__name__)

# The average for English text and code with the usual tokenizers; other scripts have fewer.
CHARS_PER_TOKEN = 4

# Tokens kept free, because the size of a request is only estimated.
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
    """Return the context window of the provider's model; None if it does not declare one."""
    try:
        defaults: Any = provider.get_info().defaults
        size = defaults.get("context_window")
        reserve = defaults.get("max_output_tokens")
    except Exception:
        # Third-party code; a provider that cannot describe itself can still answer.
        logger.exception("provider did not describe itself")
        return None
    if not isinstance(size, int) or size <= 0:
        return None
    return Window(size, reserve if isinstance(reserve, int) and 0 < reserve < size else 0)


def estimate_tokens(*parts: Any) -> int:
    """Return a quarter of the characters of all texts in `parts`, which are JSON or models."""
    return sum(map(_length, parts)) // CHARS_PER_TOKEN


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(str(key)) + _length(each) for key, each in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - any JSON
    if isinstance(value, list | tuple):
        return sum(map(_length, value))  # pyright: ignore[reportUnknownArgumentType] - any JSON
    if hasattr(value, "model_dump"):
        return _length(value.model_dump(exclude_none=True, exclude={"metadata", "type"}))
    if value is None:
        return 0
    return len(str(value))
