"""What OpenAI's errors mean."""

from __future__ import annotations

from typing import Any

import httpx2
import openai
import pytest

from amplifier_core.llm_errors import (
    ContentFilterError,
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
from amplifier_module_provider_openai.failures import reported_error, translate

REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/responses")


def refused(status: int, **body: Any) -> openai.APIStatusError:
    response = httpx2.Response(status, request=REQUEST, headers={"retry-after": "7"})
    return openai.APIStatusError("no", response=response, body=body)


def caused(cause: Exception) -> openai.APIConnectionError:
    error = openai.APIConnectionError(request=REQUEST)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refused(400, code="context_length_exceeded"), ContextLengthError),
        (refused(400, code="content_policy_violation"), ContentFilterError),
        (refused(400, code="invalid_prompt"), ContentFilterError),
        (refused(429, code="rate_limit_exceeded"), RateLimitError),
        (refused(429, type="insufficient_quota"), QuotaExceededError),
        (refused(503), ProviderUnavailableError),
        (caused(httpx2.ReadTimeout("slow")), LLMTimeoutError),
        (caused(httpx2.ConnectError("nobody")), NetworkError),
        (caused(httpx2.RemoteProtocolError("cut")), StreamError),
        (openai.APIConnectionError(request=REQUEST), NetworkError),
        (openai.APIError("oh", REQUEST, body={"code": "server_error"}), ProviderUnavailableError),
        (openai.APIError("oh", REQUEST, body={"type": "server_error"}), ProviderUnavailableError),
    ],
    ids=repr,
)
def test_an_exception_of_the_sdk_means_one_of_ours(
    error: openai.OpenAIError, expected: type[LLMError]
) -> None:
    meaning = translate(error, "m")

    assert type(meaning) is expected
    assert meaning is not None
    assert (meaning.provider, meaning.model) == ("openai", "m")


def test_a_wait_that_the_server_asks_for_is_kept() -> None:
    meaning = translate(refused(429, code="rate_limit_exceeded"))

    assert meaning is not None
    assert meaning.retry_after == 7


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Rate limit reached. Please try again in 1.5s. Visit us.", 1.5),
        ("Please try again in 250ms.", 0.25),
        ("Please slow down.", None),
    ],
)
def test_a_wait_that_stands_only_in_the_message_is_read(
    message: str, seconds: float | None
) -> None:
    meaning = reported_error({"code": "rate_limit_exceeded", "message": message})

    assert type(meaning) is RateLimitError
    assert meaning.retry_after == seconds


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ({"code": "server_is_overloaded", "message": "busy"}, ProviderUnavailableError),
        ({"code": 500, "message": "a number, as llama.cpp sends"}, ProviderUnavailableError),
        ({"code": "context_length_exceeded", "message": "long"}, ContextLengthError),
        ({"code": "image_too_large", "message": "big"}, InvalidRequestError),
        ({"code": None, "message": "oh"}, ProviderUnavailableError),
        ({}, ProviderUnavailableError),
    ],
    ids=str,
)
def test_an_error_inside_an_answer_means_one_of_ours(
    failure: dict[str, Any], expected: type[LLMError]
) -> None:
    assert type(reported_error(failure)) is expected


def test_what_is_not_the_sdks_is_left_alone() -> None:
    assert translate(RuntimeError("a bug")) is None
    assert translate(openai.OpenAIError("of no call")) is None
