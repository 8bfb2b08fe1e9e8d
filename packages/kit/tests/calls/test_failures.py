"""From what a vendor or a transport says to the kernel's tree of errors."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import llm_errors as errors
from amplifier_core.llm_errors import LLMError
from amplifier_kit.calls.failures import (
    OVERLOAD_PATIENCE,
    error_from_status,
    error_from_transport,
    retry_after_seconds,
)


def of_status(
    status: int, message: str = "no", code: str | None = None, **headers: str
) -> LLMError:
    return error_from_status(status, message, provider="p", model="m", headers=headers, code=code)


@pytest.mark.parametrize(
    ("status", "message", "code", "expected"),
    [
        (400, "odd number", None, errors.InvalidRequestError),
        (400, "prompt is too long: 9 > 8", None, errors.ContextLengthError),
        (400, "no", "context_length_exceeded", errors.ContextLengthError),
        (400, "The input token count (9) exceeds", None, errors.ContextLengthError),
        (400, "API key not valid. Please pass", None, errors.AuthenticationError),
        (401, "no", None, errors.AuthenticationError),
        (402, "pay first", None, errors.QuotaExceededError),
        (403, "no", None, errors.AccessDeniedError),
        (404, "no", None, errors.NotFoundError),
        (405, "no", None, errors.InvalidRequestError),
        (408, "no", None, errors.LLMTimeoutError),
        (409, "no", None, errors.ProviderUnavailableError),
        (413, "no", None, errors.ContextLengthError),
        (422, "no", None, errors.InvalidRequestError),
        (429, "slow down", None, errors.RateLimitError),
        (429, "no", "insufficient_quota", errors.QuotaExceededError),
        (429, "You exceeded your current quota", None, errors.QuotaExceededError),
        (500, "context length", None, errors.ProviderUnavailableError),
        (502, "no", None, errors.ProviderUnavailableError),
        (529, "no", None, errors.ProviderUnavailableError),
    ],
)
def test_a_status_and_its_words_are_one_of_our_errors(
    status: int, message: str, code: str | None, expected: type[LLMError]
) -> None:
    error = of_status(status, message, code)

    assert type(error) is expected
    assert (str(error), error.status_code) == (message, status)
    assert (error.provider, error.model) == ("p", "m")


def test_a_vendor_that_says_nothing_is_quoted_by_its_status() -> None:
    assert str(of_status(503, "")) == "HTTP 503"


def test_overload_gets_more_patience_than_a_glitch() -> None:
    assert of_status(529).delay_multiplier == OVERLOAD_PATIENCE
    assert of_status(500).delay_multiplier == 1.0


@pytest.mark.parametrize("status", [408, 429, 500, 503, 529])
def test_a_passing_error_carries_the_wait_that_was_asked_for(status: int) -> None:
    error = error_from_status(status, "no", provider="p", headers={"Retry-After": "7"})

    assert (error.retry_after, error.retryable) == (7.0, True)


@given(status=st.integers(400, 599), message=st.text(), code=st.none() | st.text())
def test_every_refusal_is_one_of_our_errors(status: int, message: str, code: str | None) -> None:
    error = of_status(status, message, code)

    assert type(error) is not LLMError
    assert error.status_code == status
    if status >= 500:
        assert error.retryable


# --- waits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"Retry-After-Ms": "1500", "Retry-After": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after-ms": "1500", "retry-after": "soon"}, 1.5),
        ({"retry-after-ms": "soon"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_a_wait_is_read_in_every_form(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_seconds(headers) == expected


@pytest.mark.parametrize("zone", [UTC, None], ids=["utc", "no zone"])
def test_a_date_is_a_wait_from_now(zone: object) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=90)
    date = format_datetime(moment if zone else moment.replace(tzinfo=None))

    seconds = retry_after_seconds({"retry-after": date})

    assert seconds is not None
    assert 80 < seconds <= 90


@given(st.dictionaries(st.sampled_from(["retry-after", "Retry-After-ms"]), st.text()))
def test_no_header_breaks_the_reading(headers: dict[str, str]) -> None:
    seconds = retry_after_seconds(headers)

    assert seconds is None or (seconds >= 0 and not math.isnan(seconds))


# --- below the SDK --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError("slow"), errors.LLMTimeoutError),
        (httpx2.ReadTimeout("slow"), errors.LLMTimeoutError),
        (httpx2.ConnectTimeout("slow"), errors.LLMTimeoutError),
        (json.JSONDecodeError("no", "{", 1), errors.StreamError),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), errors.StreamError),
        (httpx2.ReadError("gone"), errors.StreamError),
        (httpx2.RemoteProtocolError("gone"), errors.StreamError),
        (httpx2.DecodingError("gone"), errors.StreamError),
        (httpx2.ConnectError("nobody"), errors.NetworkError),
        (ConnectionRefusedError("nobody"), errors.NetworkError),
        (OSError("no route"), errors.NetworkError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_failure_below_the_sdk_is_one_of_our_errors(
    error: Exception, expected: type[LLMError]
) -> None:
    found = error_from_transport(error, provider="p", model="m")

    assert isinstance(found, expected)
    assert type(found) is expected
    assert found.retryable
    assert (found.provider, found.model) == ("p", "m")
    assert type(error).__name__ in str(found)


def test_one_of_ours_stays_what_it_is() -> None:
    error = errors.StreamError("cut")

    assert error_from_transport(error, provider="p") is error


def test_a_mistake_of_our_own_is_not_called_the_networks() -> None:
    assert error_from_transport(KeyError("choices"), provider="p") is None
    assert error_from_transport(ValueError("odd"), provider="p") is None
