"""Tests of retrying, of the waiting times and of naming errors by their messages."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import llm_errors, retry, utils
from amplifier_core.llm_errors import InvalidRequestError, LLMError, RateLimitError
from amplifier_core.retry import RetryConfig, classify_error_message, retry_with_backoff
from amplifier_core.utils import retry as old_path

QUICK = RetryConfig(max_retries=3, initial_delay=0.0, jitter=False)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace waiting by a note of how long it would have been."""
    noted: list[float] = []

    async def note(delay: float) -> None:
        noted.append(delay)

    monkeypatch.setattr(asyncio, "sleep", note)
    return noted


def failing(*errors: Exception) -> Callable[[], Any]:
    """Return an operation that raises each of `errors` once and then returns "done"."""
    pending = list(errors)

    async def operation() -> str:
        if pending:
            raise pending.pop(0)
        return "done"

    return operation


async def test_the_first_success_is_returned_without_waiting(waits: list[float]) -> None:
    assert await retry_with_backoff(failing()) == "done"
    assert waits == []


async def test_a_passing_failure_is_waited_out_with_growing_patience(waits: list[float]) -> None:
    operation = failing(*[RateLimitError("slow down")] * 3)

    assert await retry_with_backoff(operation, RetryConfig(jitter=False)) == "done"
    assert waits == [1.0, 2.0, 4.0]


async def test_the_default_configuration_retries_three_times(waits: list[float]) -> None:
    with pytest.raises(RateLimitError):
        await retry_with_backoff(failing(*[RateLimitError("slow down")] * 4))

    assert len(waits) == 3


async def test_the_last_error_leaves_unchanged(waits: list[float]) -> None:
    last = RateLimitError("third")

    with pytest.raises(RateLimitError) as caught:
        await retry_with_backoff(
            failing(RateLimitError("first"), RateLimitError("second"), last),
            RetryConfig(max_retries=2, jitter=False),
        )

    assert caught.value is last
    assert waits == [1.0, 2.0]


@pytest.mark.parametrize("error", [InvalidRequestError("bad"), ValueError("a bug")])
async def test_what_does_not_pass_is_not_retried(error: Exception, waits: list[float]) -> None:
    with pytest.raises(type(error)) as caught:
        await retry_with_backoff(failing(error), QUICK)

    assert caught.value is error
    assert waits == []


async def test_no_retries_means_one_attempt(waits: list[float]) -> None:
    with pytest.raises(RateLimitError):
        await retry_with_backoff(failing(RateLimitError("no")), RetryConfig(max_retries=0))

    assert waits == []


async def test_the_observer_hears_of_each_wait_before_it_begins(waits: list[float]) -> None:
    heard: list[tuple[int, float, str, int]] = []

    async def on_retry(attempt: int, delay: float, error: LLMError) -> None:
        heard.append((attempt, delay, str(error), len(waits)))

    operation = failing(RateLimitError("a"), RateLimitError("b", retry_after=9.0))
    await retry_with_backoff(operation, RetryConfig(jitter=False), on_retry=on_retry)

    assert heard == [(1, 1.0, "a", 0), (2, 9.0, "b", 1)]


def test_waits_stop_growing_at_the_maximum() -> None:
    config = RetryConfig(max_delay=5.0, jitter=False)

    assert [config.compute_delay(attempt) for attempt in range(4)] == [1.0, 2.0, 4.0, 5.0]
    assert config.compute_delay(100_000) == 5.0


def test_a_multiplier_may_exceed_the_maximum() -> None:
    config = RetryConfig(max_delay=5.0, jitter=False)

    assert config.compute_delay(9, delay_multiplier=3.0) == 15.0


@pytest.mark.parametrize("multiplier", [0.0, -1.0, float("inf"), float("nan")])
def test_a_senseless_multiplier_is_ignored(multiplier: float) -> None:
    assert RetryConfig(jitter=False).compute_delay(0, delay_multiplier=multiplier) == 1.0


@pytest.mark.parametrize("retry_after", [float("inf"), float("nan"), 0.5, -3.0, None])
def test_a_server_can_lengthen_a_wait_but_not_forever(retry_after: float | None) -> None:
    assert RetryConfig(jitter=False).compute_delay(0, retry_after=retry_after) == 1.0


def test_a_server_is_ignored_when_so_configured() -> None:
    config = RetryConfig(honor_retry_after=False, jitter=False)

    assert config.compute_delay(0, retry_after=30.0) == 1.0


def test_jitter_spreads_a_wait_by_half_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    spread: list[tuple[float, float]] = []

    def lowest(low: float, high: float) -> float:
        spread.append((low, high))
        return low

    monkeypatch.setattr(random, "uniform", lowest)

    assert RetryConfig().compute_delay(1) == 1.0
    assert spread == [(0.5, 1.5)]


@given(
    attempt=st.integers(0, 50),
    retry_after=st.floats(0, 1e6),
    multiplier=st.floats(allow_nan=True, allow_infinity=True),
)
def test_jitter_never_cuts_the_wait_a_server_asked_for(
    attempt: int, retry_after: float, multiplier: float
) -> None:
    delay = RetryConfig().compute_delay(
        attempt, retry_after=retry_after, delay_multiplier=multiplier
    )

    assert delay >= retry_after


@pytest.mark.parametrize(("given_jitter", "seen"), [(None, 0.2), (True, 0.2), (False, 0.0)])
def test_jitter_is_switched_by_a_bool_and_read_as_a_number(
    given_jitter: bool | None, seen: float
) -> None:
    assert RetryConfig(jitter=given_jitter).jitter == seen


@pytest.mark.parametrize(("given_jitter", "seen"), [(0.7, 0.2), (0.0, 0.0)])
def test_a_float_for_jitter_is_deprecated(given_jitter: float, seen: float) -> None:
    message = "passing a float for jitter is deprecated, use a bool"
    with pytest.warns(DeprecationWarning, match=message) as caught:
        config = RetryConfig(jitter=given_jitter)

    assert config.jitter == seen
    assert caught[0].filename == __file__


def test_another_type_for_jitter_is_taken_for_yes() -> None:
    wrong: Any = "yes"
    message = "jitter received an unexpected type; defaulting to True"
    with pytest.warns(UserWarning, match=message):
        assert RetryConfig(jitter=wrong).jitter == 0.2


def test_the_old_names_count_while_the_new_ones_are_at_their_defaults() -> None:
    with pytest.warns(DeprecationWarning, match="min_delay is deprecated, use initial_delay"):
        assert RetryConfig(min_delay=3.0).initial_delay == 3.0
    with pytest.warns(DeprecationWarning, match="min_delay is deprecated"):
        assert RetryConfig(initial_delay=2.0, min_delay=3.0).initial_delay == 2.0
    with pytest.warns(
        DeprecationWarning, match="backoff_multiplier is deprecated, use backoff_factor"
    ):
        assert RetryConfig(backoff_multiplier=3.0).backoff_factor == 3.0
    with pytest.warns(DeprecationWarning, match="backoff_multiplier is deprecated"):
        assert RetryConfig(backoff_factor=4.0, backoff_multiplier=3.0).backoff_factor == 4.0


def test_the_old_names_still_read_the_new_values() -> None:
    config = RetryConfig(initial_delay=2.0, backoff_factor=4.0)

    with pytest.warns(DeprecationWarning, match="min_delay is deprecated") as caught:
        assert config.min_delay == 2.0
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="backoff_multiplier is deprecated"):
        assert config.backoff_multiplier == 4.0


def test_a_configuration_is_read_only() -> None:
    config = RetryConfig()

    with pytest.raises(AttributeError, match="read-only"):
        config.max_retries = 9
    assert (config.max_retries, config.max_delay, config.honor_retry_after) == (3, 60.0, True)


def test_a_negative_number_of_retries_is_refused() -> None:
    with pytest.raises(OverflowError):
        RetryConfig(max_retries=-1)


@pytest.mark.parametrize(
    ("message", "status_code", "name"),
    [
        ("", 401, "AuthenticationError"),
        ("", 403, "AccessDeniedError"),
        ("", 404, "NotFoundError"),
        ("", 413, "ContextLengthError"),
        ("", 429, "RateLimitError"),
        ("rate limit", 500, "ProviderUnavailableError"),
        ("", 503, "ProviderUnavailableError"),
        ("Context Length exceeded", None, "ContextLengthError"),
        ("too many tokens", 400, "ContextLengthError"),
        ("maximum context is 8k", None, "ContextLengthError"),
        ("Rate limit reached", None, "RateLimitError"),
        ("too many requests", None, "RateLimitError"),
        ("authentication failed", None, "AuthenticationError"),
        ("Invalid API key", None, "AuthenticationError"),
        ("Unauthorized", None, "AuthenticationError"),
        ("model not found", None, "NotFoundError"),
        ("content filter", None, "ContentFilterError"),
        ("violates safety rules", None, "ContentFilterError"),
        ("blocked", 422, "ContentFilterError"),
        ("what", 400, "InvalidRequestError"),
        ("what", 422, "InvalidRequestError"),
        ("what", 418, "LLMError"),
        ("what", None, "LLMError"),
    ],
)
def test_an_error_is_named_by_its_status_and_then_by_its_words(
    message: str, status_code: int | None, name: str
) -> None:
    error_type = classify_error_message(message, status_code=status_code, provider="acme")

    assert error_type is getattr(llm_errors, name)


@pytest.mark.parametrize("name", retry.__all__)
def test_the_old_import_paths_lead_to_the_same_objects(name: str) -> None:
    assert getattr(utils, name) is getattr(retry, name)
    assert getattr(old_path, name) is getattr(retry, name)
