"""Translate errors, raised by the SDK or sent inside an answer, to the kernel's model errors."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from amplifier_core.errors import error_text
from amplifier_core.llm_errors import ContentFilterError, LLMError, NetworkError, StreamError
from amplifier_kit.calls.failures import error_from_status, error_from_transport
from amplifier_kit.calls.messages import in_one_line

PROVIDER = "openai"

# The status for an error code inside a 200 response; any other code is a 400.
_STATUS_OF_CODE = {
    "": 500,
    "server_error": 500,
    "vector_store_timeout": 504,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
}
_AGAINST_POLICY = (
    "bio_policy",
    "content_filter",
    "content_policy_violation",
    "cyber_policy",
    "image_content_policy_violation",
    "invalid_prompt",
    "misalignment_policy_violation",
)
# An error inside a stream has no `retry-after` header, only this sentence.
_WAIT = re.compile(r"try again in ([\d.]+)\s*(ms|s)\b")


def translate(error: BaseException, model: str | None = None) -> LLMError | None:
    """Return the model error for an exception of the SDK or of reading an answer, else None."""
    facts: dict[str, Any] = {"provider": PROVIDER, "model": model}
    # The kit translates answers that are not JSON at all.
    is_json = not isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
    if isinstance(error, AttributeError | LookupError | TypeError | ValueError) and is_json:
        text = f"the server sent an answer of another form ({in_one_line(error)})"
        return StreamError(text, **facts)
    sdk: Any = sys.modules.get("openai")
    if sdk is None or not isinstance(error, sdk.OpenAIError):
        return None
    raised: Any = error
    if isinstance(error, sdk.APIStatusError):
        if raised.code in _AGAINST_POLICY:
            return ContentFilterError(raised.message, status_code=raised.status_code, **facts)
        facts["headers"] = raised.response.headers
        facts["code"] = " ".join(filter(None, (raised.code, raised.type)))
        return error_from_status(raised.status_code, raised.message, **facts)
    if isinstance(error, sdk.APIConnectionError):
        below = error.__cause__ and error_from_transport(error.__cause__, **facts)
        return below or NetworkError(error_text(error), **facts)
    if isinstance(error, sdk.APIError):
        code = raised.code or raised.type
        return reported_error({"code": code, "message": raised.message}, model)
    return None


def reported_error(failure: dict[str, Any] | None, model: str | None = None) -> LLMError:
    """Return the model error for an error object in an `error` event or a failed response."""
    code = str((failure or {}).get("code") or "")
    message = str((failure or {}).get("message") or code or "the answer failed without a reason")
    facts: dict[str, Any] = {"provider": PROVIDER, "model": model}
    if code in _AGAINST_POLICY:
        return ContentFilterError(message, **facts)
    # Other servers of this format use the HTTP status as the code.
    if code.isdigit():
        status = int(code)
    else:
        status = _STATUS_OF_CODE.get(code, 400)
    wait = _WAIT.search(message)
    headers = {"retry-after-ms" if wait[2] == "ms" else "retry-after": wait[1]} if wait else {}
    return error_from_status(status, message, headers=headers, code=code, **facts)
