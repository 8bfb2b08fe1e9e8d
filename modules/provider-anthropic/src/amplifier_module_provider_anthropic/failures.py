"""Translate the SDK's exceptions to the kernel's model errors."""

from __future__ import annotations

import sys
from typing import Any

from amplifier_core.errors import describe_error
from amplifier_core.llm_errors import LLMError, LLMTimeoutError, NetworkError
from amplifier_kit.calls.failures import error_from_status, error_from_transport

# The status for an error inside a stream, whose HTTP status was 200.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def translate(error: BaseException, model: str | None = None) -> LLMError | None:
    """Return the model error for an exception of the SDK; None for any other exception."""
    # Not imported here, because that takes a second: if it raised, it is loaded.
    sdk: Any = sys.modules.get("anthropic")
    if sdk is None or not isinstance(error, sdk.AnthropicError):
        return None
    facts: dict[str, Any] = {"provider": "anthropic", "model": model}
    if isinstance(error, sdk.APIStatusError):
        vendors: Any = error
        message = str(vendors.api_message or vendors.message)
        facts["code"] = str(vendors.error_code or vendors.type)
        facts["headers"] = vendors.response.headers
        return error_from_status(vendors.status_code, message, **facts)
    if isinstance(error, sdk.APITimeoutError):
        return LLMTimeoutError(f"no answer in time ({describe_error(error)})", **facts)
    if isinstance(error, sdk.APIConnectionError):
        cause = error.__cause__ and error_from_transport(error.__cause__, **facts)
        return cause or NetworkError(describe_error(error), **facts)
    return LLMError(describe_error(error), **facts)


def error_in_stream(error: dict[str, Any], model: str) -> LLMError:
    """Return the model error for an error event in a stream."""
    kind = str(error.get("type"))
    message = str(error.get("message"))
    status = _STATUS.get(kind, 500)
    return error_from_status(status, message, provider="anthropic", model=model, code=kind)
