"""Retries of model calls with exponential backoff."""

from __future__ import annotations

import asyncio
import math
import random
import warnings
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

from amplifier_core.llm_errors import (
    AccessDeniedError,
    AuthenticationError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    LLMError,
    NotFoundError,
    ProviderUnavailableError,
    RateLimitError,
)

__all__ = ["RetryConfig", "classify_error_message", "retry_with_backoff"]

T = TypeVar("T")

OnRetry = Callable[[int, float, LLMError], Awaitable[object]]


def _warn_old_name(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated, use {new}", DeprecationWarning, stacklevel=3)


def _read_jitter(jitter: object) -> bool:
    if jitter is None or isinstance(jitter, bool):
        return jitter is not False
    if isinstance(jitter, float):
        message = "passing a float for jitter is deprecated, use a bool"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
        return jitter != 0.0
    message = "jitter received an unexpected type; defaulting to True"
    warnings.warn(message, UserWarning, stacklevel=3)
    return True


class RetryConfig:
    """How often to retry and how long to wait; read-only, times in seconds.

    `max_retries=0` means one attempt. `jitter` is switched by a bool and reads as a number.
    `min_delay` and `backoff_multiplier` are the old names of `initial_delay` and
    `backoff_factor`; they count only while the new name is at its default.
    """

    max_retries: int
    initial_delay: float
    max_delay: float
    backoff_factor: float
    jitter: float
    honor_retry_after: bool

    def __init__(
        self,
        max_retries: int = 3,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        backoff_factor: float = 2.0,
        jitter: bool | float | None = None,
        honor_retry_after: bool = True,
        min_delay: float | None = None,
        backoff_multiplier: float | None = None,
    ) -> None:
        if max_retries < 0:
            raise OverflowError(f"max_retries must not be negative, got {max_retries}")
        if min_delay is not None:
            _warn_old_name("min_delay", "initial_delay")
            initial_delay = min_delay if initial_delay == 1.0 else initial_delay
        if backoff_multiplier is not None:
            _warn_old_name("backoff_multiplier", "backoff_factor")
            backoff_factor = backoff_multiplier if backoff_factor == 2.0 else backoff_factor
        self.__dict__.update(
            max_retries=max_retries,
            initial_delay=initial_delay,
            max_delay=max_delay,
            backoff_factor=backoff_factor,
            jitter=0.2 if _read_jitter(jitter) else 0.0,
            honor_retry_after=honor_retry_after,
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"RetryConfig is read-only; `{name}` is set when it is made")

    @property
    def min_delay(self) -> float:
        """Deprecated name of `initial_delay`."""
        _warn_old_name("min_delay", "initial_delay")
        return self.initial_delay

    @property
    def backoff_multiplier(self) -> float:
        """Deprecated name of `backoff_factor`."""
        _warn_old_name("backoff_multiplier", "backoff_factor")
        return self.backoff_factor

    def compute_delay(
        self, attempt: int, *, retry_after: float | None = None, delay_multiplier: float = 1.0
    ) -> float:
        """Return the seconds to wait after the failed attempt number `attempt`, counted from 0.

        Grows up to `max_delay`, is then multiplied by `delay_multiplier` and by a random factor of
        0.5 to 1.5 (jitter), and is never less than a `retry_after` that is honoured.
        """
        try:
            delay = min(self.initial_delay * self.backoff_factor**attempt, self.max_delay)
        except OverflowError:
            delay = self.max_delay
        if math.isfinite(delay_multiplier) and delay_multiplier > 0:
            delay *= delay_multiplier
        if self.jitter:
            delay *= random.uniform(0.5, 1.5)
        # After the jitter, which must not bring the delay below the server's floor.
        if self.honor_retry_after and retry_after is not None and math.isfinite(retry_after):
            delay = max(delay, retry_after)
        return delay


async def retry_with_backoff(
    operation: Callable[[], Awaitable[T]],
    config: RetryConfig | None = None,
    *,
    on_retry: OnRetry | None = None,
) -> T:
    """Await `operation()` until it succeeds, and return its value.

    Only an `LLMError` with `retryable` is retried. Before each wait,
    `on_retry(attempt, delay, error)` is awaited, attempts counted from 1. The last error is raised
    unchanged.
    """
    config = config or RetryConfig()
    for attempt in range(config.max_retries):
        try:
            return await operation()
        except LLMError as error:
            if not error.retryable:
                raise
            delay = config.compute_delay(
                attempt, retry_after=error.retry_after, delay_multiplier=error.delay_multiplier
            )
            if on_retry is not None:
                await on_retry(attempt + 1, delay, error)
        await asyncio.sleep(delay)
    return await operation()


_BY_STATUS: dict[int, type[LLMError]] = {
    401: AuthenticationError,
    403: AccessDeniedError,
    404: NotFoundError,
    413: ContextLengthError,
    429: RateLimitError,
}

_BY_WORDS: tuple[tuple[tuple[str, ...], type[LLMError]], ...] = (
    (("context length", "too many tokens", "maximum context"), ContextLengthError),
    (("rate limit", "too many requests"), RateLimitError),
    (("authentication", "api key", "unauthorized"), AuthenticationError),
    (("not found",), NotFoundError),
    (("content filter", "safety", "blocked"), ContentFilterError),
)


def classify_error_message(
    message: str, *, status_code: int | None = None, provider: str | None = None
) -> type[LLMError]:
    """Name the error class for a vendor's message: by status code first, then by its words.

    `provider` is accepted for callers that pass it, and has no effect.
    """
    if status_code in _BY_STATUS:
        return _BY_STATUS[status_code]
    if status_code is not None and status_code >= 500:
        return ProviderUnavailableError
    lowered = message.lower()
    for words, error_type in _BY_WORDS:
        if any(word in lowered for word in words):
            return error_type
    return InvalidRequestError if status_code in (400, 422) else LLMError
