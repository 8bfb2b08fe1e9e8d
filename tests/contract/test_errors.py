"""Contract of the errors of providers and kernel, of retrying, and of hiding secrets."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import amplifier_core
from amplifier_core import (
    AmplifierSession,
    InvalidToolCallError,
    LLMError,
    ModuleValidationError,
    ProviderUnavailableError,
    RateLimitError,
    RetryConfig,
    classify_error_message,
    errors,
    llm_errors,
    module_sources,
    retry_with_backoff,
)
from amplifier_core.utils import SENSITIVE_KEYS, redact_secrets, truncate_values
from contract.requirements import requirement

# class, parent, retryable by default
TREE = [
    ("LLMError", "Exception", False),
    ("RateLimitError", "LLMError", True),
    ("QuotaExceededError", "RateLimitError", False),
    ("AuthenticationError", "LLMError", False),
    ("AccessDeniedError", "AuthenticationError", False),
    ("ContextLengthError", "LLMError", False),
    ("ContentFilterError", "LLMError", False),
    ("InvalidRequestError", "LLMError", False),
    ("ProviderUnavailableError", "LLMError", True),
    ("NetworkError", "ProviderUnavailableError", True),
    ("LLMTimeoutError", "LLMError", True),
    ("NotFoundError", "LLMError", False),
    ("StreamError", "LLMError", True),
    ("AbortError", "LLMError", False),
    ("InvalidToolCallError", "LLMError", False),
    ("ConfigurationError", "LLMError", False),
]


@requirement("ERR-1", "ERR-2")
@pytest.mark.parametrize(("name", "parent", "retryable"), TREE)
def test_every_provider_error_has_its_place_and_its_defaults(
    name: str, parent: str, retryable: bool
) -> None:
    kind: type[LLMError] = getattr(llm_errors, name)
    error = kind("boom")

    assert kind.__bases__[0].__name__ == parent
    assert getattr(amplifier_core, name) is kind
    assert (str(error), error.retryable) == ("boom", retryable)
    assert (error.provider, error.model, error.status_code) == (None, None, None)
    assert (error.retry_after, error.delay_multiplier) == (None, 1.0)
    turned = kind("boom", provider="p", model="m", status_code=418, retryable=not retryable)
    assert (turned.provider, turned.model, turned.status_code) == ("p", "m", 418)
    assert turned.retryable is not retryable


@requirement("ERR-3")
def test_an_error_shows_only_what_is_worth_knowing() -> None:
    full = RateLimitError(
        "slow down",
        provider="openai",
        model="gpt",
        status_code=429,
        retry_after=2.5,
        delay_multiplier=3.0,
    )

    assert repr(LLMError("boom")) == "LLMError('boom')"
    assert repr(full) == (
        "RateLimitError('slow down', provider='openai', model='gpt', status_code=429, "
        "retryable=True, retry_after=2.5, delay_multiplier=3.0)"
    )


@requirement("ERR-4")
def test_an_invalid_tool_call_says_which_and_takes_no_retry_fields() -> None:
    error = InvalidToolCallError("bad", tool_name="bash", raw_arguments="{", provider="p")

    assert (error.tool_name, error.raw_arguments, error.provider) == ("bash", "{", "p")
    bare = InvalidToolCallError("bad")
    assert (bare.tool_name, bare.raw_arguments) == (None, None)
    make: Any = InvalidToolCallError
    for field in ("retry_after", "delay_multiplier"):
        with pytest.raises(TypeError):
            make("bad", **{field: 1.0})


@requirement("ERR-5", "ERR-7")
def test_kernel_errors_have_one_root_and_keep_their_built_in_bases() -> None:
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if kind.__module__ == "amplifier_core.errors"
    ]

    assert kinds
    assert all(issubclass(kind, errors.AmplifierError) for kind in kinds)
    assert issubclass(module_sources.ModuleNotFoundError, ValueError)
    assert issubclass(module_sources.ModuleLoadError, ValueError)
    assert issubclass(ModuleValidationError, errors.AmplifierError)
    with pytest.raises(ValueError, match="Configuration is required"):
        AmplifierSession({})
    assert ModuleValidationError("bad").reason_code == "validation_failed"
    coded = ModuleValidationError("bad", reason_code="invalid_entry_point")
    assert coded.reason_code == "invalid_entry_point"


@requirement("ERR-6")
def test_a_provider_error_keeps_what_caused_it() -> None:
    vendor = ConnectionResetError("peer")

    with pytest.raises(llm_errors.NetworkError) as caught:
        raise llm_errors.NetworkError("no answer") from vendor

    assert caught.value.__cause__ is vendor


@requirement("RETRY-1", "RETRY-2")
def test_a_retry_config_has_its_defaults_and_cannot_be_changed() -> None:
    config = RetryConfig()

    assert (config.max_retries, config.initial_delay, config.max_delay) == (3, 1.0, 60.0)
    assert (config.backoff_factor, config.honor_retry_after) == (2.0, True)
    assert [RetryConfig(jitter=on).jitter for on in (None, True, False)] == [0.2, 0.2, 0.0]
    for name in ("max_retries", "initial_delay", "max_delay", "backoff_factor", "jitter"):
        with pytest.raises(AttributeError):
            setattr(config, name, 9)


@requirement("RETRY-2", "RETRY-3")
def test_old_spellings_still_work_with_a_warning() -> None:
    odd: Any = "yes"
    with pytest.warns(DeprecationWarning, match="passing a float for jitter is deprecated"):
        assert [RetryConfig(jitter=spread).jitter for spread in (0.3, 0.0)] == [0.2, 0.0]
    with pytest.warns(UserWarning, match="jitter received an unexpected type"):
        assert RetryConfig(jitter=odd).jitter == 0.2
    with pytest.warns(DeprecationWarning, match="min_delay is deprecated, use initial_delay"):
        assert RetryConfig(min_delay=5.0).initial_delay == 5.0
    with pytest.warns(DeprecationWarning, match="min_delay is deprecated"):
        assert RetryConfig(min_delay=5.0, initial_delay=2.0).initial_delay == 2.0
    with pytest.warns(DeprecationWarning, match="backoff_multiplier is deprecated"):
        assert RetryConfig(backoff_multiplier=3.0).backoff_factor == 3.0
    with pytest.warns(DeprecationWarning, match="min_delay"):
        assert RetryConfig(initial_delay=4.0).min_delay == 4.0
    with pytest.warns(DeprecationWarning, match="backoff_multiplier"):
        assert RetryConfig().backoff_multiplier == 2.0


async def _run(
    monkeypatch: pytest.MonkeyPatch, errors: list[Exception], config: RetryConfig
) -> tuple[int, list[tuple[int, float, Exception]], list[float], Any]:
    """Retry an operation that raises these errors in turn and then succeeds."""
    waits: list[float] = []
    told: list[tuple[int, float, Exception]] = []
    attempts = 0

    async def no_wait(delay: float) -> None:
        assert len(told) == len(waits) + 1
        waits.append(delay)

    async def operation() -> str:
        nonlocal attempts
        attempts += 1
        if attempts <= len(errors):
            raise errors[attempts - 1]
        return "done"

    async def on_retry(attempt: int, delay: float, error: Exception) -> None:
        told.append((attempt, delay, error))

    monkeypatch.setattr(asyncio, "sleep", no_wait)
    outcome: Any
    try:
        outcome = await retry_with_backoff(operation, config, on_retry=on_retry)
    except Exception as error:  # noqa: BLE001 - the outcome under test
        outcome = error
    return attempts, told, waits, outcome


@requirement("RETRY-4", "RETRY-7")
async def test_only_retryable_errors_are_tried_again_and_only_so_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flaky = [RateLimitError(str(n)) for n in range(5)]
    fatal, foreign = LLMError("fatal"), KeyError("not ours")
    calm = RetryConfig(jitter=False, max_retries=2)

    assert (await _run(monkeypatch, [flaky[0]], calm))[0::3] == (2, "done")
    attempts, _, _, outcome = await _run(monkeypatch, list(flaky), calm)
    assert attempts == 3
    assert outcome is flaky[2]
    assert (await _run(monkeypatch, [fatal], calm))[0::3] == (1, fatal)
    assert (await _run(monkeypatch, [foreign], calm))[0::3] == (1, foreign)
    assert (await _run(monkeypatch, list(flaky), RetryConfig(max_retries=0)))[0] == 1
    with pytest.raises(OverflowError):
        RetryConfig(max_retries=-1)


@requirement("RETRY-5", "RETRY-8")
async def test_waits_grow_up_to_the_maximum_and_are_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures: list[Exception] = [ProviderUnavailableError(str(n)) for n in range(4)]
    failures[3] = ProviderUnavailableError("patience", delay_multiplier=10.0)
    config = RetryConfig(max_retries=4, initial_delay=1, max_delay=3, jitter=False)

    _, told, waits, outcome = await _run(monkeypatch, failures, config)

    assert outcome == "done"
    assert waits == [1, 2, 3, 30]
    assert told == [(n + 1, waits[n], failures[n]) for n in range(4)]


@requirement("RETRY-6")
@pytest.mark.parametrize("jitter", [True, False])
async def test_the_servers_wish_is_a_floor_when_it_is_honoured(
    monkeypatch: pytest.MonkeyPatch, jitter: bool
) -> None:
    busy: list[Exception] = [RateLimitError("busy", retry_after=30.0) for _ in range(20)]

    _, _, honoured, _ = await _run(monkeypatch, busy, RetryConfig(max_retries=20, jitter=jitter))
    _, _, ignored, _ = await _run(
        monkeypatch, busy[:1], RetryConfig(jitter=jitter, honor_retry_after=False)
    )

    assert min(honoured) >= 30.0
    assert ignored[0] < 2.0


@requirement("RETRY-9")
@pytest.mark.parametrize(
    ("message", "status", "name"),
    [
        ("x", 401, "AuthenticationError"),
        ("x", 403, "AccessDeniedError"),
        ("x", 404, "NotFoundError"),
        ("x", 413, "ContextLengthError"),
        ("x", 429, "RateLimitError"),
        ("context length", 500, "ProviderUnavailableError"),
        ("x", 503, "ProviderUnavailableError"),
        ("Maximum CONTEXT of 8k; rate limit", None, "ContextLengthError"),
        ("too many tokens", 400, "ContextLengthError"),
        ("Too Many Requests", None, "RateLimitError"),
        ("invalid api key", None, "AuthenticationError"),
        ("unauthorized", None, "AuthenticationError"),
        ("model not found", None, "NotFoundError"),
        ("blocked by safety", None, "ContentFilterError"),
        ("x", 400, "InvalidRequestError"),
        ("x", 422, "InvalidRequestError"),
        ("x", 418, "LLMError"),
        ("x", None, "LLMError"),
    ],
)
def test_an_error_is_classified_by_status_and_then_by_words(
    message: str, status: int | None, name: str
) -> None:
    kind = classify_error_message(message, status_code=status, provider="p")

    assert kind is getattr(llm_errors, name)


@requirement("RETRY-10")
def test_long_values_are_cut_in_a_copy() -> None:
    original = {"a": "x" * 200, "b": ["y" * 181, 1], "c": ("z" * 200,), "d": "x" * 180}

    cut = truncate_values(original)

    assert cut == {
        "a": "x" * 180 + "... (truncated 20 chars)",
        "b": ["y" * 180 + "... (truncated 1 chars)", 1],
        "c": ("z" * 200,),
        "d": "x" * 180,
    }
    assert original["a"] == "x" * 200
    assert truncate_values("abcdef", max_length=2) == "ab... (truncated 4 chars)"


@requirement("RETRY-11")
def test_secrets_are_hidden_in_a_copy() -> None:
    original = {"API_KEY": "k", "deep": [{"Password": "p", "openai_api_key": "seen"}], "n": 1}

    hidden = redact_secrets(original)

    assert hidden == {
        "API_KEY": "[REDACTED]",
        "deep": [{"Password": "[REDACTED]", "openai_api_key": "seen"}],
        "n": 1,
    }
    assert original["API_KEY"] == "k"
    assert redact_secrets({"pin": 1, "token": 2}, {"pin"}) == {"pin": "[REDACTED]", "token": 2}
    assert (
        frozenset(
            [
                "api_key",
                "apikey",
                "api-key",
                "secret",
                "password",
                "token",
                "credential",
                "credentials",
                "private_key",
                "privatekey",
                "auth",
                "authorization",
            ]
        )
        == SENSITIVE_KEYS
    )
