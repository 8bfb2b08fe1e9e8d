"""Errors: each refusal is one of the kernel's errors, and only a passing one is retried."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from amplifier_core import llm_errors as errors
from amplifier_core.llm_errors import LLMError, ProviderUnavailableError, RateLimitError
from wire.conftest import Connect
from wire.line import Line, text_of
from wire.vendor import Answer, Kind, Refuse, Vendor

HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
FINAL: list[tuple[int, Kind, type[LLMError]]] = [
    (400, "invalid", errors.InvalidRequestError),
    (400, "too_long", errors.ContextLengthError),
    (401, "auth", errors.AuthenticationError),
    (403, "denied", errors.AccessDeniedError),
    (404, "not_found", errors.NotFoundError),
    (413, "too_long", errors.ContextLengthError),
    (422, "invalid", errors.InvalidRequestError),
    (429, "quota", errors.QuotaExceededError),
]
PASSING: list[tuple[int, Kind, type[LLMError]]] = [
    (408, "server", errors.LLMTimeoutError),
    (429, "rate_limit", errors.RateLimitError),
    (500, "server", errors.ProviderUnavailableError),
    (502, "server", errors.ProviderUnavailableError),
    (503, "overloaded", errors.ProviderUnavailableError),
    (504, "server", errors.ProviderUnavailableError),
    (529, "overloaded", errors.ProviderUnavailableError),
]
# What the clocks of two event loop callbacks may differ by.
TICK = 0.02


def gap(line: Line) -> float:
    """Return how long the server waited for the second request."""
    first, second = line.server.requests
    return second.arrived - first.answered


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "unstreamed"])
@pytest.mark.parametrize(
    ("status", "kind", "expected"), FINAL, ids=[f"{each[0]}-{each[1]}" for each in FINAL]
)
async def test_a_final_refusal_is_raised_at_once(
    connect: Connect, vendor: Vendor, status: int, kind: Kind, expected: type[LLMError],
    streaming: bool,
) -> None:  # fmt: skip
    line = await connect(Refuse(status, kind), use_streaming=streaming)

    with pytest.raises(expected) as caught:
        await line.ask("hi")

    error = caught.value
    assert type(error) is expected
    assert (error.status_code, error.provider) == (status, line.provider.name)
    assert error.model == vendor.model
    assert error.__cause__ is not None, "the vendor's own error is behind it"
    assert not error.retryable
    assert len(line.server.requests) == 1


@pytest.mark.parametrize(
    ("status", "kind", "expected"), PASSING, ids=[f"{each[0]}-{each[1]}" for each in PASSING]
)
async def test_a_passing_refusal_is_followed_by_another_attempt(
    connect: Connect, status: int, kind: Kind, expected: type[LLMError]
) -> None:
    line = await connect(Refuse(status, kind), Answer.of("here you are"))

    response = await line.ask("hi")

    assert text_of(response) == "here you are"
    first, second = line.server.requests
    assert first.raw == second.raw
    assert [each["error_type"] for each in line.of("provider:retry")] == [expected.__name__]


@pytest.mark.parametrize(
    ("status", "kind", "expected"), PASSING, ids=[f"{each[0]}-{each[1]}" for each in PASSING]
)
async def test_a_passing_refusal_without_another_attempt_is_raised(
    connect: Connect, status: int, kind: Kind, expected: type[LLMError]
) -> None:
    line = await connect(Refuse(status, kind), max_retries=0)

    with pytest.raises(expected) as caught:
        await line.ask("hi")

    assert type(caught.value) is expected
    assert (caught.value.status_code, caught.value.retryable) == (status, True)
    assert caught.value.__cause__ is not None


async def test_the_last_error_is_raised_when_all_attempts_fail(connect: Connect) -> None:
    line = await connect(
        Refuse(503, "overloaded"), Refuse(500, "server"), Refuse(429, "rate_limit", "slow down")
    )

    with pytest.raises(RateLimitError, match="slow down") as caught:
        await line.ask("hi")

    assert caught.value.__cause__ is not None
    assert len(line.server.requests) == 3
    assert len(line.of("provider:retry")) == 2
    assert [each["status"] for each in line.of("llm:response")] == ["error"]


async def test_a_retry_says_what_it_waits_for(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Refuse(503, "overloaded", "come back later"), Answer.of("ok"))

    await line.ask("hi")

    [retry] = line.of("provider:retry")
    assert (retry["provider"], retry["model"]) == (line.provider.name, vendor.model)
    assert (retry["attempt"], retry["max_retries"]) == (1, 2)
    assert retry["delay"] > 0
    assert retry["error_type"] == "ProviderUnavailableError"
    assert "come back later" in retry["error_message"]
    assert any("come back later" in shown for shown in line.display.lines)


@pytest.mark.parametrize(
    ("headers", "floor"),
    [({"retry-after": "1"}, 1.0), ({"retry-after-ms": "300"}, 0.3)],
    ids=["seconds", "milliseconds"],
)
async def test_a_wait_the_server_asks_for_is_a_floor(
    connect: Connect, headers: dict[str, str], floor: float
) -> None:
    line = await connect(Refuse(429, "rate_limit", headers=headers), Answer.of("ok"))

    await line.ask("hi")

    assert gap(line) >= floor - TICK
    assert line.of("provider:retry")[0]["delay"] >= floor


async def test_a_wait_until_a_date_is_a_floor(connect: Connect) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)

    def refuse(_: dict[str, Any]) -> Refuse:
        date = format_datetime(until, usegmt=True)
        return Refuse(503, "overloaded", headers={"retry-after": date})

    def answer(_: dict[str, Any]) -> Answer:
        assert datetime.now(UTC) >= until - timedelta(seconds=TICK)
        return Answer.of("in time")

    line = await connect(refuse, answer)

    assert text_of(await line.ask("hi")) == "in time"


async def test_a_wait_longer_than_anybody_waits_fails_at_once(connect: Connect) -> None:
    line = await connect(Refuse(429, "rate_limit", headers={"retry-after": "3600"}))

    with pytest.raises(RateLimitError) as caught:
        await line.ask("hi")

    assert caught.value.retry_after == 3600
    assert not caught.value.retryable
    assert len(line.server.requests) == 1


@pytest.mark.parametrize("raw", [HTML, b"", b'{"half": ', b"null", b'"text"', b"[]"])
async def test_an_error_whose_body_nobody_understands_is_known_by_its_status(
    connect: Connect, raw: bytes
) -> None:
    line = await connect(
        Refuse(502, "server", raw=raw), Refuse(400, "invalid", raw=raw), max_retries=0
    )

    with pytest.raises(ProviderUnavailableError) as unavailable:
        await line.ask("hi")
    with pytest.raises(errors.InvalidRequestError) as invalid:
        await line.ask("hi")

    assert (unavailable.value.status_code, invalid.value.status_code) == (502, 400)
    assert str(unavailable.value)
    assert str(invalid.value)


async def test_an_error_repeats_what_the_vendor_said(connect: Connect) -> None:
    line = await connect(Refuse(400, "invalid", "temperature: must be below 2"))

    with pytest.raises(errors.InvalidRequestError, match="temperature: must be below 2"):
        await line.ask("hi")


async def test_a_provider_works_on_after_an_error(connect: Connect) -> None:
    line = await connect(Refuse(400, "invalid"), Answer.of("better"))

    with pytest.raises(errors.InvalidRequestError):
        await line.ask("bad")

    assert text_of(await line.ask("good")) == "better"
