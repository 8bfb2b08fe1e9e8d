"""Tests of the provider error tree."""

from __future__ import annotations

import pickle

import pytest

from amplifier_core import llm_errors
from amplifier_core.llm_errors import InvalidToolCallError, LLMError, RateLimitError

TREE: dict[str, tuple[str, bool]] = {
    "LLMError": ("Exception", False),
    "RateLimitError": ("LLMError", True),
    "QuotaExceededError": ("RateLimitError", False),
    "AuthenticationError": ("LLMError", False),
    "AccessDeniedError": ("AuthenticationError", False),
    "ContextLengthError": ("LLMError", False),
    "ContentFilterError": ("LLMError", False),
    "InvalidRequestError": ("LLMError", False),
    "ProviderUnavailableError": ("LLMError", True),
    "NetworkError": ("ProviderUnavailableError", True),
    "LLMTimeoutError": ("LLMError", True),
    "NotFoundError": ("LLMError", False),
    "StreamError": ("LLMError", True),
    "AbortError": ("LLMError", False),
    "InvalidToolCallError": ("LLMError", False),
    "ConfigurationError": ("LLMError", False),
}


def test_the_tree_has_no_other_members() -> None:
    assert sorted(TREE) == sorted(llm_errors.__all__)


@pytest.mark.parametrize("name", TREE)
def test_each_class_has_its_parent_and_its_opinion_on_retrying(name: str) -> None:
    error_type: type[LLMError] = getattr(llm_errors, name)
    parent, retryable = TREE[name]

    assert error_type.__bases__[0].__name__ == parent
    assert error_type("boom").retryable is retryable


@pytest.mark.parametrize("name", TREE)
def test_whoever_raises_may_overrule_the_class_on_retrying(name: str) -> None:
    error_type: type[LLMError] = getattr(llm_errors, name)

    assert error_type("boom", retryable=True).retryable is True
    assert error_type("boom", retryable=False).retryable is False


def test_an_error_carries_what_the_vendor_said() -> None:
    error = RateLimitError(
        "slow down",
        provider="acme",
        model="m1",
        status_code=429,
        retry_after=2.5,
        delay_multiplier=10.0,
    )

    assert str(error) == "slow down"
    assert (error.provider, error.model, error.status_code) == ("acme", "m1", 429)
    assert (error.retry_after, error.delay_multiplier) == (2.5, 10.0)


def test_repr_lists_what_is_known_in_a_fixed_order() -> None:
    full = RateLimitError(
        "slow", delay_multiplier=2.0, retry_after=1.0, status_code=429, model="m", provider="p"
    )

    assert repr(full) == (
        "RateLimitError('slow', provider='p', model='m', status_code=429, retryable=True, "
        "retry_after=1.0, delay_multiplier=2.0)"
    )
    assert repr(LLMError("boom")) == "LLMError('boom')"


def test_an_invalid_tool_call_tells_which_tool_and_what_the_model_wrote() -> None:
    error = InvalidToolCallError("bad json", tool_name="bash", raw_arguments="{", provider="p")

    assert (error.tool_name, error.raw_arguments, error.provider) == ("bash", "{", "p")
    assert repr(error) == "InvalidToolCallError('bad json', provider='p')"


@pytest.mark.parametrize("keyword", ["retry_after", "delay_multiplier"])
def test_an_invalid_tool_call_knows_no_waiting_time(keyword: str) -> None:
    arguments: dict[str, float] = {keyword: 1.0}

    with pytest.raises(TypeError):
        InvalidToolCallError("bad", **arguments)  # pyright: ignore[reportArgumentType] - the point


def test_an_error_keeps_its_details_across_a_process_boundary() -> None:
    error = InvalidToolCallError("bad", tool_name="bash", retryable=True)

    copy = pickle.loads(pickle.dumps(error))

    assert (str(copy), copy.tool_name, copy.retryable) == ("bad", "bash", True)
