"""The SDK's errors in the kernel's tree."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx2
import pytest

from amplifier_core.llm_errors import (
    AccessDeniedError,
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
from amplifier_module_provider_anthropic.failures import translate

REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/messages")


def refused(
    status: int, kind: str, message: str = "no", headers: dict[str, str] | None = None, **more: Any
) -> anthropic.APIStatusError:
    body = {"type": "error", "error": {"type": kind, "message": message, **more}}
    response = httpx2.Response(status, json=body, headers=headers, request=REQUEST)
    return anthropic.APIStatusError(f"Error code: {status}", response=response, body=body)


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (400, "invalid_request_error", InvalidRequestError),
        (401, "authentication_error", AuthenticationError),
        (402, "billing_error", QuotaExceededError),
        (403, "permission_error", AccessDeniedError),
        (404, "not_found_error", NotFoundError),
        (413, "request_too_large", ContextLengthError),
        (429, "rate_limit_error", RateLimitError),
        (500, "api_error", ProviderUnavailableError),
        (504, "timeout_error", ProviderUnavailableError),
        (529, "overloaded_error", ProviderUnavailableError),
    ],
)
def test_a_status_is_one_of_our_errors(status: int, kind: str, expected: type[LLMError]) -> None:
    error = translate(refused(status, kind, "the vendor's words"), "a-model")

    assert error is not None
    assert type(error) is expected
    assert (error.status_code, error.model) == (status, "a-model")
    assert str(error) == "the vendor's words"


def test_a_wait_that_the_vendor_asks_for_is_kept() -> None:
    error = translate(refused(429, "rate_limit_error", headers={"retry-after": "7"}))

    assert error is not None
    assert error.retry_after == 7.0


def test_an_overload_asks_for_more_patience_than_a_glitch() -> None:
    glitch, overload = (
        translate(refused(500, "api_error")),
        translate(refused(529, "overloaded_error")),
    )

    assert glitch is not None
    assert overload is not None
    assert overload.delay_multiplier > glitch.delay_multiplier


@pytest.mark.parametrize(
    "error",
    [
        refused(400, "invalid_request_error", "Your credit balance is too low to go on"),
        refused(429, "rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}),
    ],
)
def test_an_empty_account_is_not_worth_another_attempt(error: anthropic.APIStatusError) -> None:
    ours = translate(error)

    assert type(ours) is QuotaExceededError
    assert not ours.retryable


def test_a_prompt_that_is_too_long_is_told_apart_from_a_bad_one() -> None:
    words = "prompt is too long: 210000 tokens > 200000 maximum"

    assert type(translate(refused(400, "invalid_request_error", words))) is ContextLengthError


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (httpx2.ConnectError("nobody there"), NetworkError),
        (httpx2.RemoteProtocolError("hung up"), StreamError),
        (None, NetworkError),
    ],
)
def test_a_lost_connection_is_what_lost_it(
    cause: Exception | None, expected: type[LLMError]
) -> None:
    error = anthropic.APIConnectionError(request=REQUEST)
    error.__cause__ = cause

    assert type(translate(error)) is expected


def test_silence_is_a_timeout() -> None:
    assert type(translate(anthropic.APITimeoutError(request=REQUEST))) is LLMTimeoutError


def test_an_error_of_the_sdk_itself_is_a_model_error_and_any_other_is_not_ours() -> None:
    assert type(translate(anthropic.AnthropicError("odd"))) is LLMError
    assert translate(ValueError("a bug")) is None
