"""What the SDK raises for what servers say, and what it means."""

from __future__ import annotations

from typing import Any

import httpx2
import openai
import pytest

from amplifier_core.llm_errors import (
    AuthenticationError,
    ContextLengthError,
    InvalidRequestError,
    LLMError,
    LLMTimeoutError,
    NetworkError,
    NotFoundError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
    StreamError,
)
from amplifier_module_provider_chat_completions.failures import translate

REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")
CLIENT = openai.AsyncOpenAI(api_key="x", base_url="http://127.0.0.1/v1")


def refused(status: int, body: Any, headers: dict[str, str] | None = None) -> LLMError:
    response = httpx2.Response(status, json=body, headers=headers, request=REQUEST)
    found = translate("here", CLIENT._make_status_error_from_response(response), "m")
    assert found is not None
    return found


def reported(body: Any) -> LLMError:
    """Return what an error inside a stream means, as the SDK's stream raises it."""
    found = translate("here", openai.APIError("An error", REQUEST, body=body), "m")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("status", "error"),
    [
        # llama.cpp
        (400, {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 4010,
               "message": "request (4010 tokens) exceeds it", "n_ctx": 2048}),
        # vLLM, older and newer
        (400, {"code": 400, "type": "BadRequestError",
               "message": "This model's maximum context length is 4096 tokens."}),
        (400, {"code": 400, "type": "BadRequestError",
               "message": "The prompt (length 9) is longer than the maximum model length of 8"}),
        # Ollama
        (400, {"message": "the input length exceeds the context length"}),
        (400, {"message": "too long", "type": "invalid_request_error",
               "code": "context_length_exceeded"}),
    ],
    ids=["llama.cpp", "vllm", "vllm-newer", "ollama", "openai"],
)  # fmt: skip
def test_every_servers_words_for_too_long_are_understood(
    status: int, error: dict[str, Any]
) -> None:
    found = refused(status, {"error": error})

    assert isinstance(found, ContextLengthError)
    assert str(found) == error["message"]
    assert (found.provider, found.model, found.status_code) == ("here", "m", status)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "no such model"}}, "no such model"),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"object": "error", "message": "The model does not exist"}, "The model does not exist"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"error": {"message": None}}, "Error code: 404"),
        ([], "Error code: 404"),
    ],
)
def test_the_servers_own_words_are_the_message(body: Any, message: str) -> None:
    found = refused(404, body)

    assert isinstance(found, NotFoundError)
    assert str(found) == message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequestError),
        (401, AuthenticationError),
        (429, RateLimitError),
        (500, ProviderUnavailableError),
        (503, ProviderUnavailableError),
    ],
)
def test_a_status_is_an_error_of_its_kind(status: int, kind: type[LLMError]) -> None:
    assert type(refused(status, {"error": {"message": "no"}})) is kind


def test_the_wait_that_a_server_asks_for_is_kept() -> None:
    assert refused(429, {"error": {"message": "later"}}, {"retry-after": "7"}).retry_after == 7


def test_an_empty_account_is_not_worth_a_wait() -> None:
    found = refused(429, {"error": {"message": "no", "code": "insufficient_quota"}})

    assert isinstance(found, QuotaExceededError)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"message": "busy", "code": 503}, ProviderUnavailableError),
        ({"message": "broken", "type": "server_error"}, ProviderUnavailableError),
        ({"message": "slow down", "code": "rate_limit_exceeded"}, RateLimitError),
        ({"message": "no", "type": "invalid_request_error"}, InvalidRequestError),
        ({"message": "x", "type": "exceed_context_size_error"}, ContextLengthError),
        ({"message": "hm"}, StreamError),
        ("plain words", StreamError),
    ],
)
def test_an_error_inside_a_stream_is_told_by_its_words(body: Any, kind: type[LLMError]) -> None:
    assert type(reported(body)) is kind


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (httpx2.ConnectError("refused"), NetworkError),
        (httpx2.ReadTimeout("silent"), LLMTimeoutError),
        (httpx2.RemoteProtocolError("gone"), StreamError),
        (None, NetworkError),
    ],
)
def test_a_connection_that_fails_is_told_by_its_cause(
    cause: Exception | None, kind: type[LLMError]
) -> None:
    error = openai.APIConnectionError(request=REQUEST)
    error.__cause__ = cause

    assert type(translate("here", error, "m")) is kind


def test_what_the_sdk_did_not_raise_is_nobodys_business_here() -> None:
    assert translate("here", ValueError("ours"), "m") is None
