"""Translate the SDK's exceptions to the kernel's model errors."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from pydantic import ValidationError

from amplifier_core.llm_errors import (
    InvalidRequestError,
    LLMError,
    QuotaExceededError,
    RateLimitError,
    StreamError,
)
from amplifier_kit.calls.failures import error_from_status

PROVIDER = "gemini"

_DELAY = re.compile(r'"retryDelay": "([\d.]+)s"')


def translate(error: BaseException, model: str | None = None) -> LLMError | None:
    """Return the model error for an exception of the SDK; None for any other exception."""
    # Not imported here, because that takes a second: if it raised, it is loaded.
    errors = sys.modules.get("google.genai.errors")
    if errors is None:
        return None
    facts: dict[str, Any] = {"provider": PROVIDER, "model": model}
    if isinstance(error, AttributeError | LookupError | TypeError):
        return StreamError(f"the server's answer cannot be read ({error!r})", **facts)
    if isinstance(error, errors.APIError):
        return _from_answer(error, facts)
    if isinstance(error, errors.UnknownApiResponseError):
        return StreamError(f"the server sent what is not JSON ({error})", **facts)
    if isinstance(error, ValidationError):
        said = " ".join(str(error).split())
        if error.title.endswith("Response"):
            return StreamError(f"the server sent what is no answer ({said})", **facts)
        return InvalidRequestError(f"the request cannot be sent ({said})", **facts)
    return None


def _from_answer(error: Any, facts: dict[str, Any]) -> LLMError:
    told = json.dumps(error.details, default=str)
    message = str(error.message or error)
    delay = _DELAY.search(told)
    wait = float(delay[1]) if delay else None
    # Limits per minute and per day have the same message; only the details distinguish them.
    daily = "PerDay" in told
    if error.code == 429 and (daily or wait is not None):
        kind = QuotaExceededError if daily else RateLimitError
        return kind(message, status_code=429, retry_after=wait, **facts)
    headers = getattr(error.response, "headers", None)
    found = error_from_status(error.code, message, headers=headers, code=told, **facts)
    if wait is not None and found.retryable:
        found.retry_after = wait
    return found
