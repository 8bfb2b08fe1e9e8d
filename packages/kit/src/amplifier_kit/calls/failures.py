"""From what an SDK or its transport raises to the kernel's tree of model errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from amplifier_core.errors import describe_error
from amplifier_core.llm_errors import (
    AuthenticationError,
    ContextLengthError,
    InvalidRequestError,
    LLMError,
    LLMTimeoutError,
    NetworkError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
    StreamError,
)
from amplifier_core.retry import classify_error_message

# A status that says more than its hundred; the rest is the kernel's own table.
_PASSING: dict[int, type[LLMError]] = {408: LLMTimeoutError, 409: ProviderUnavailableError}
# Words in which vendors say that a conversation is too long, that an account is empty, or that a
# key is wrong, under a status that says less.
_TOO_LONG = (
    "context length", "context_length", "maximum context", "context window", "context size",
    "prompt is too long", "too many tokens", "input token count", "maximum number of tokens",
)  # fmt: skip
_NO_MONEY = (
    "insufficient_quota", "credit balance", "spend_limit_reached", "exceeded your current quota",
)  # fmt: skip
# By status: under a 400, `billing` may as well be a word of the caller's.
_EMPTY = {400: _NO_MONEY, 429: (*_NO_MONEY, "billing")}
_WRONG_KEY = ("api key not valid", "api_key_invalid")

# Overload passes more slowly than a glitch: wait this many times longer.
OVERLOAD_PATIENCE = 3.0


def error_from_status(
    status: int,
    message: str,
    *,
    provider: str,
    model: str | None = None,
    headers: Mapping[str, str] | None = None,
    code: str | None = None,
) -> LLMError:
    """Return the error for an HTTP status, the vendor's message and its error code."""
    facts: dict[str, Any] = {"provider": provider, "model": model, "status_code": status}
    kind = _kind_of(status, f"{code or ''} {message}".lower(), message)
    if issubclass(kind, RateLimitError | ProviderUnavailableError | LLMTimeoutError):
        facts["retry_after"] = retry_after_seconds(headers or {})
    if status == 529:
        facts["delay_multiplier"] = OVERLOAD_PATIENCE
    return kind(message or f"HTTP {status}", **facts)


def _kind_of(status: int, words: str, message: str) -> type[LLMError]:
    if status in _PASSING:
        return _PASSING[status]
    if status == 402 or any(word in words for word in _EMPTY.get(status, ())):
        return QuotaExceededError
    if status in (400, 413, 422) and any(word in words for word in _TOO_LONG):
        return ContextLengthError
    if status == 400 and any(word in words for word in _WRONG_KEY):
        return AuthenticationError
    kind = classify_error_message(message, status_code=status)
    # The kernel reads words before it reads a plain 400; a refusal for words is ours to decide.
    if kind is LLMError and 400 <= status < 500:
        return InvalidRequestError
    return kind


def error_from_transport(
    error: BaseException, *, provider: str, model: str | None = None
) -> LLMError | None:
    """Return the error for a failure below the SDK: a transport's, or unreadable data.

    None means that it is neither, and nobody should pretend otherwise.
    """
    facts: dict[str, Any] = {"provider": provider, "model": model}
    text = describe_error(error)
    if isinstance(error, LLMError):
        return error
    if isinstance(error, TimeoutError) or _is_of_transport(error, "TimeoutException"):
        return LLMTimeoutError(f"no answer in time ({text})", **facts)
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return StreamError(f"the server sent what is not JSON ({text})", **facts)
    if isinstance(error, RecursionError):
        return StreamError("the server sent JSON that is nested too deep", **facts)
    if _is_of_transport(error, "RemoteProtocolError", "ReadError", "DecodingError", "StreamError"):
        return StreamError(f"the connection broke off ({text})", **facts)
    if isinstance(error, OSError) or _is_of_transport(error, "TransportError"):
        return NetworkError(f"the server could not be reached ({text})", **facts)
    return None


def _is_of_transport(error: BaseException, *names: str) -> bool:
    """Whether the HTTP library under an SDK raised it; a library that did is already imported."""
    libraries = [sys.modules.get(name) for name in ("httpx2", "httpx")]
    # A library that is still being imported lacks some of its names, and has raised nothing yet.
    kinds = [getattr(library, name, ()) for library in libraries if library for name in names]
    return isinstance(error, tuple(kinds))


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the wait a server asks for, in seconds; it may name milliseconds or a date."""
    lowered = {key.lower(): value for key, value in headers.items()}
    try:
        if "retry-after-ms" in lowered:
            return max(0.0, float(lowered["retry-after-ms"]) / 1_000)
        asked = lowered.get("retry-after")
        if asked is None:
            return None
        return max(0.0, float(asked))
    except ValueError:
        return _until(lowered.get("retry-after", ""))


def _until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (zoned - datetime.now(UTC)).total_seconds())
