"""What is left of an account's limits, from the headers of an answer."""

from __future__ import annotations

from amplifier_kit.calls.rate_limits import rate_limits


def test_limits_are_named_without_their_prefix_and_are_numbers_where_they_are_numbers() -> None:
    headers = {
        "X-RateLimit-Remaining-Tokens": "149984",
        "x-ratelimit-reset-tokens": "6m0s",
        "x-ratelimit-odd": "²",
        "content-type": "application/json",
    }

    assert rate_limits(headers, "x-ratelimit-") == {
        "remaining_tokens": 149_984,
        "reset_tokens": "6m0s",
        "odd": "²",
    }
