"""Translation of what an SDK or its transport raises to the kernel's model errors."""

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

# Statuses with a meaning of their own; the others are in the kernel's table.
_PASSING: dict[int, type[LLMError]] = {408: LLMTimeoutError, 409: ProviderUnavailableError}
# Phrases that report a conversation that is too long, an empty account or a wrong key, under a
# status that vendors use for other errors as well.
_TOO_LONG = (
    "context length", "context_length", "maximum context", "context window", "context size",
    "prompt is too long", "too many tokens", "input token count", "maximum number of tokens",
)  # fmt: skip
_NO_MONEY = (
    "insufficient_quota", "credit balance", "spend_limit_reached", "exceeded your current quota",
)  # fmt: skip
# By status: the message of a 400 may quote the request, and `billing` may be the caller's word.
_EMPTY = {400: _NO_MONEY, 429: (*_NO_MONEY, "billing")}
_WRONG_KEY = ("api key not valid", "api_key_invalid")

# An overload lasts longer than a glitch: multiply the delay.
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
    # Any other 4xx is a fault of the request, which a retry would not fix.
    if kind is LLMError and 400 <= status < 500:
        return InvalidRequestError
    return kind


def error_from_transport(
    error: BaseException, *, provider: str, model: str | None = None
) -> LLMError | None:
    """Return the error for a failure below the SDK: of the transport, or unreadable data.

    None means that it is neither: a bug of ours must not be reported as one of the network.
    """
    facts: dict[str, Any] = {"provider": provider, "model": model}
    text = describe_error(error)
    if isinstance(error, LLMError):
        return error
    # Before OSError, of which TimeoutError is a subclass.
    if isinstance(error, TimeoutError) or _is_of_transport(error, "TimeoutException"):
        return LLMTimeoutError(f"no answer in time ({text})", **facts)
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return StreamError(f"the server sent what is not JSON ({text})", **facts)
    if isinstance(error, RecursionError):
        return StreamError("the server sent JSON that is nested too deep", **facts)
    # Before TransportError, the base class of some of these.
    if _is_of_transport(error, "RemoteProtocolError", "ReadError", "DecodingError", "StreamError"):
        return StreamError(f"the connection broke off ({text})", **facts)
    if isinstance(error, OSError) or _is_of_transport(error, "TransportError"):
        return NetworkError(f"the server could not be reached ({text})", **facts)
    return None


def _is_of_transport(error: BaseException, *names: str) -> bool:
    """Whether the HTTP library of an SDK raised it; if it did, it is already imported."""
    libraries = [sys.modules.get(name) for name in ("httpx2", "httpx")]
    # A library that is still being imported lacks some of its names, and has raised nothing yet.
    kinds = [getattr(library, name, ()) for library in libraries if library for name in names]
    return isinstance(error, tuple(kinds))


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the wait a server asks for, in seconds; it may name milliseconds or a date."""
    lowered = {key.lower(): value for key, value in headers.items()}
    milliseconds = _number(lowered.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1_000)
    asked = lowered.get("retry-after", "")
    seconds = _number(asked)
    if seconds is not None:
        return max(0.0, seconds)
    return _until(asked)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (zoned - datetime.now(UTC)).total_seconds())
