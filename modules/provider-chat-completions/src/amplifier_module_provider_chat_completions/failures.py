"""From what the openai SDK raises to the kernel's tree of model errors."""

from __future__ import annotations

import sys
from typing import Any

from amplifier_core.llm_errors import ContextLengthError, LLMError, NetworkError, StreamError
from amplifier_kit.calls.failures import error_from_status, error_from_transport

# How servers say that a conversation is too long, besides the words the kit knows: llama.cpp, vLLM.
_TOO_LONG = ("exceed_context_size", "maximum model length", "max_model_len")
# What a server's words stand for inside a stream, where there is no status any more.
_STATUS_OF = {"quota": 429, "rate_limit": 429, "server_error": 500, "invalid_request": 400}


def translate(provider: str, error: BaseException, model: str | None) -> LLMError | None:
    """Return what an exception of the SDK means; None when it is not the SDK's."""
    openai: Any = sys.modules.get("openai")
    if openai is None or not isinstance(error, openai.APIError):
        return None
    failure: Any = error
    if isinstance(failure, openai.APIConnectionError):
        # The SDK's own sentence ("Connection error.") says less than what it stands for.
        found = error_from_transport(failure.__cause__ or failure, provider=provider, model=model)
        return found or NetworkError(str(failure), provider=provider, model=model)
    if hasattr(failure.body, "get"):
        fields = failure.body
    else:
        fields = {"message": failure.body}
    # `message` of most servers, `detail` of some, plain text of others.
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
