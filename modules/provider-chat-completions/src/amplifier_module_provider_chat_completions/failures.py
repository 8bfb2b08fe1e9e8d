"""Translate the openai SDK's exceptions to the kernel's model errors."""

from __future__ import annotations

import sys
from typing import Any

from amplifier_core.llm_errors import ContextLengthError, LLMError, NetworkError, StreamError
from amplifier_kit.calls.failures import error_from_status, error_from_transport

# Messages of llama.cpp and vLLM for a conversation that is too long, besides those in the kit.
_TOO_LONG = ("exceed_context_size", "maximum model length", "max_model_len")
# The status for words in an error inside a stream, which has no HTTP status.
_STATUS_OF = {"quota": 429, "rate_limit": 429, "server_error": 500, "invalid_request": 400}


def translate(provider: str, error: BaseException, model: str | None) -> LLMError | None:
    """Return the model error for an exception of the SDK; None for any other exception."""
    openai: Any = sys.modules.get("openai")
    if openai is None or not isinstance(error, openai.APIError):
        return None
    failure: Any = error
    if isinstance(failure, openai.APIConnectionError):
        # The SDK's message ("Connection error.") says less than the cause.
        found = error_from_transport(failure.__cause__ or failure, provider=provider, model=model)
        return found or NetworkError(str(failure), provider=provider, model=model)
    if hasattr(failure.body, "get"):
        fields = failure.body
    else:
        fields = {"message": failure.body}
    # Most servers send `message`, some `detail`, others plain text.
    said = fields.get("message") or fields.get("detail")
    message = said if isinstance(said, str) else str(failure)
    code = fields.get("code")
    words = f"{fields.get('type')} {code} {message}".lower()
    meant = next((_STATUS_OF[word] for word in _STATUS_OF if word in words), None)
    status = getattr(failure, "status_code", code if isinstance(code, int) else meant)
    facts: dict[str, Any] = {"provider": provider, "model": model}
    if any(word in words for word in _TOO_LONG):
        return ContextLengthError(message, status_code=status, **facts)
    if status is None:
        return StreamError(f"the server reported an error: {message}", **facts)
    if hasattr(failure, "response"):
        headers = failure.response.headers
    else:
        headers = None
    return error_from_status(status, message, headers=headers, code=words, **facts)
