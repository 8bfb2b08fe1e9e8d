"""What the SDK raises, as the kernel's errors."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.llm_errors import (
    AccessDeniedError,
    AuthenticationError,
    ContextLengthError,
    InvalidRequestError,
    LLMError,
    NotFoundError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
    StreamError,
)
from amplifier_module_provider_gemini.failures import translate

QUOTA = "You exceeded your current quota, please check your plan and billing details."
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}


def violation(quota_id: str) -> dict[str, Any]:
    kind = "type.googleapis.com/google.rpc.QuotaFailure"
    return {"@type": kind, "violations": [{"quotaId": quota_id}]}


def translated(sdk: Any, code: int, message: str, *details: dict[str, Any]) -> LLMError:
    body = {"error": {"code": code, "message": message, "status": "S", "details": list(details)}}
    kind = sdk.errors.ClientError if code < 500 else sdk.errors.ServerError
    found = translate(kind(code, body), "gemini-3.8-flash")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (400, "bad request", InvalidRequestError),
        (400, "API key not valid. Please pass a valid API key.", AuthenticationError),
        (400, "The input token count (9) exceeds the maximum number of tokens allowed (8).",
         ContextLengthError),
        (403, "Your project has been denied access.", AccessDeniedError),
        (404, "models/x is not found", NotFoundError),
        (429, QUOTA, QuotaExceededError),
        (429, "Resource has been exhausted (e.g. check quota).", RateLimitError),
        (500, "Internal error", ProviderUnavailableError),
        (503, "The model is overloaded.", ProviderUnavailableError),
    ],
)  # fmt: skip
def test_a_status_and_its_words_name_the_error(
    sdk: Any, code: int, message: str, expected: type[LLMError]
) -> None:
    found = translated(sdk, code, message)

    assert type(found) is expected
    assert (found.provider, found.model, found.status_code) == ("gemini", "gemini-3.8-flash", code)
    assert str(found) == message


def test_a_wrong_key_is_told_from_its_reason(sdk: Any) -> None:
    reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}

    assert type(translated(sdk, 400, "Request contains errors.", reason)) is AuthenticationError


def test_a_limit_per_minute_passes_after_the_wait_that_the_vendor_names(sdk: Any) -> None:
    found = translated(sdk, 429, QUOTA, violation("RequestsPerMinutePerProject"), RETRY)

    assert type(found) is RateLimitError
    assert (found.retryable, found.retry_after) == (True, 34.5)


def test_a_limit_per_day_does_not_pass_whatever_wait_is_named(sdk: Any) -> None:
    found = translated(sdk, 429, QUOTA, violation("RequestsPerDayPerProject"), RETRY)

    assert type(found) is QuotaExceededError
    assert not found.retryable


def test_an_overloaded_server_may_name_a_wait(sdk: Any) -> None:
    assert translated(sdk, 503, "The model is overloaded.", RETRY).retry_after == 34.5


def test_a_body_that_is_no_json_is_quoted(sdk: Any) -> None:
    error = sdk.errors.ServerError(502, {"message": "<html>Bad Gateway</html>", "status": "Bad"})

    found = translate(error, "m")

    assert type(found) is ProviderUnavailableError
    assert "Bad Gateway" in str(found)


def test_what_cannot_be_read_is_a_broken_stream(sdk: Any) -> None:
    with pytest.raises(ValueError, match="candidates") as unreadable:
        sdk.types.GenerateContentResponse.model_validate({"candidates": 7})

    assert type(translate(unreadable.value, "m")) is StreamError
    assert type(translate(sdk.errors.UnknownApiResponseError("half"), "m")) is StreamError


def test_what_cannot_be_sent_is_an_invalid_request(sdk: Any) -> None:
    with pytest.raises(ValueError, match="temperature") as refused:
        sdk.types.GenerateContentConfig(temperature="warm")

    assert type(translate(refused.value, "m")) is InvalidRequestError


@pytest.mark.usefixtures("sdk")
def test_what_is_not_the_sdks_is_left_alone() -> None:
    assert translate(RuntimeError("ours"), "m") is None
