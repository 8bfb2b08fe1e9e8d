"""An account without money, whatever the status under which a vendor says so."""

from __future__ import annotations

import pytest

from amplifier_core.llm_errors import InvalidRequestError, LLMError, QuotaExceededError
from amplifier_kit.calls.failures import error_from_status


@pytest.mark.parametrize(
    ("status", "message", "code", "expected"),
    [
        (400, "Your credit balance is too low", "invalid_request_error", QuotaExceededError),
        (400, "no", "insufficient_quota", QuotaExceededError),
        (402, "prompt is too long to be paid", None, QuotaExceededError),
        (429, "no", "enforced_spend_limit_reached", QuotaExceededError),
        (429, "Check your billing details", None, QuotaExceededError),
        (400, "tools.0.name: `look up billing` has a space", None, InvalidRequestError),
    ],
)
def test_an_empty_account_is_told_apart_from_a_request_that_mentions_one(
    status: int, message: str, code: str | None, expected: type[LLMError]
) -> None:
    error = error_from_status(status, message, provider="p", code=code)

    assert type(error) is expected
    assert not error.retryable
