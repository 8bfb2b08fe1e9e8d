"""Tests of single calls: what is set aside, what is charged, and what is never sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from amplifier_core import ChatRequest, Message, llm_errors
from amplifier_core.message_models import ImageBlock, Usage
from amplifier_kit.calls.prices import price_table

Build = Callable[..., Awaitable[Any]]


def ask(text: str = "hello", **fields: Any) -> ChatRequest:
    return ChatRequest(messages=[Message(role="user", content=text)], **fields)


def using(input_tokens: int, output_tokens: int, **more: Any) -> Callable[[Usage], Usage]:
    total = input_tokens + output_tokens
    usage = Usage(
        input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=total, **more
    )
    return lambda _: usage


def nothing(_: Usage) -> None:
    return None


async def test_a_call_that_fits_is_charged_what_it_reports(build: Build) -> None:
    harness = await build(usd=1)
    harness.vendor.report = using(1_000, 100)

    response = await harness.provider.complete(ask())

    assert response.content[0].text == "Done."
    assert harness.spent == Decimal("0.0045")
    assert harness.ledger.root.held.usd == 0
    assert harness.vendor.requests[0].max_output_tokens == 4_096


async def test_the_worst_case_is_set_aside_while_a_call_is_under_way(build: Build) -> None:
    harness = await build(usd=1)
    held: list[Decimal] = []

    def look(_: ChatRequest) -> str:
        held.append(harness.ledger.root.held.usd)
        return "Done."

    harness.vendor.answer = look

    await harness.provider.complete(ask())

    assert held[0] >= harness.vendor.billed > 0


async def test_an_answer_is_shortened_rather_than_refused(build: Build) -> None:
    harness = await build(usd="0.05")

    await harness.provider.complete(ask(max_output_tokens=4_000))

    assert 256 <= harness.vendor.requests[0].max_output_tokens < 4_000
    assert harness.vendor.billed <= Decimal("0.05")


@pytest.mark.parametrize("keyword", ["max_output_tokens", "max_tokens"])
async def test_keywords_that_override_the_request_are_limited_too(
    build: Build, keyword: str
) -> None:
    harness = await build(usd="0.05")

    await harness.provider.complete(ask(), **{keyword: 100_000})

    assert harness.vendor.requests[0].max_output_tokens < 4_000
    assert harness.vendor.billed <= Decimal("0.05")


async def test_without_room_the_vendor_is_not_called_and_the_answer_says_why(build: Build) -> None:
    harness = await build(usd="0.001")

    response = await harness.provider.complete(ask("write a book"))

    assert harness.vendor.requests == []
    assert "USD 0.0000 of 0.0010" in response.content[0].text
    assert "write a book" in response.content[0].text
    assert response.tool_calls is None
    assert response.finish_reason == "budget"
    assert harness.told("budget:exhausted")[0]["answered_by"] == "budget"
    assert any("The turn ends" in line for line in harness.screen.lines)


@pytest.mark.parametrize(
    "report",
    [nothing, using(0, 0), using(10, 10_000), using(10_000, 10)],
    ids=["none", "zero", "little input", "little output"],
)
async def test_usage_that_cannot_be_true_is_charged_as_the_worst_case(
    build: Build, report: Callable[[Usage], Usage | None]
) -> None:
    harness = await build("word " * 2_000, usd=2)
    harness.vendor.report = report

    await harness.provider.complete(ask("word " * 2_000))

    assert harness.spent >= harness.vendor.billed
    assert len(harness.told("budget:usage_doubted")) == 1
    assert any("worst case" in line for line in harness.screen.lines)


async def test_usage_below_what_was_seen_is_charged_as_seen(build: Build) -> None:
    harness = await build("12345678" * 100, usd=2)
    harness.vendor.report = using(1_500, 150)

    await harness.provider.complete(ask("12345678" * 1_000))

    assert harness.spent == (3 * Decimal(2_000) + 15 * Decimal(200)) / 1_000_000


async def test_a_cheap_read_from_the_cache_stays_cheap(build: Build) -> None:
    prices = {"vendor": {"input": 3, "output": 15, "cache_read": "0.3"}}
    harness = await build(usd=2, prices=prices)
    harness.vendor.report = using(2_000, 100, cache_read_tokens=2_000)

    await harness.provider.complete(ask("12345678" * 1_000))

    assert harness.spent == (Decimal("0.3") * 2_000 + 15 * 100) / 1_000_000


async def test_input_that_may_be_written_into_a_cache_is_set_aside_at_that_price(
    build: Build,
) -> None:
    harness = await build(usd=1, prices={"vendor": {"input": 3, "output": 15, "cache_write": 300}})
    held: list[Decimal] = []

    def look(_: ChatRequest) -> str:
        held.append(harness.ledger.root.held.usd)
        return "Done."

    harness.vendor.answer = look

    await harness.provider.complete(ask())

    assert held[0] > 300 * Decimal(1_024) / 1_000_000


async def test_nothing_is_given_back_when_only_the_worst_case_counts(build: Build) -> None:
    harness = await build(usd=1, settle="worst_case")
    harness.vendor.report = using(5_000, 500)

    await harness.provider.complete(ask())

    assert harness.spent >= harness.vendor.billed


async def test_more_than_the_worst_case_is_charged_and_announced(build: Build) -> None:
    harness = await build(usd=1)
    harness.vendor.report = using(100_000, 10_000)

    await harness.provider.complete(ask())

    assert harness.spent == Decimal("0.45")
    assert harness.told("budget:overrun")


@pytest.mark.parametrize(
    ("error", "is_charged"),
    [
        (llm_errors.RateLimitError("slow down"), False),
        (llm_errors.AuthenticationError("who are you"), False),
        (llm_errors.ProviderUnavailableError("overloaded"), False),
        (llm_errors.NetworkError("gone"), True),
        (llm_errors.LLMTimeoutError("late"), True),
        (llm_errors.StreamError("broke off"), True),
        (RuntimeError("a bug"), True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
async def test_a_failure_that_may_have_been_billed_is_charged(
    build: Build, error: Exception, is_charged: bool
) -> None:
    harness = await build(error, usd=1)

    with pytest.raises(type(error)):
        await harness.provider.complete(ask())

    assert (harness.spent > 0) is is_charged
    assert harness.ledger.root.held.usd == 0
    assert harness.ledger.root.used.steps == 1


async def test_a_model_without_a_price_is_refused_where_dollars_are_limited(build: Build) -> None:
    harness = await build(usd=1, prices={})

    refused = pytest.raises(llm_errors.ConfigurationError, match="No price is known for vendor/big")
    with refused as raised:
        await harness.provider.complete(ask())

    assert harness.vendor.requests == []
    assert harness.told("budget:price_unknown")[0]["refused"] is True
    assert "`prices`" in str(raised.value)


async def test_a_model_without_a_price_can_be_allowed(build: Build) -> None:
    harness = await build(usd=1, prices={}, unknown_price="allow")

    await harness.provider.complete(ask())
    await harness.provider.complete(ask())

    assert len(harness.vendor.requests) == 2
    assert len(harness.told("budget:price_unknown")) == 1


async def test_prices_come_with_the_package(build: Build) -> None:
    harness = await build(usd=1, prices={})
    harness.vendor.name = "anthropic"
    harness.vendor.report = using(1_000, 100)

    await harness.provider.complete(ask(model="claude-sonnet-4-5"))

    assert harness.spent == Decimal("0.0045")


async def test_a_guard_that_fails_lets_no_call_pass(build: Build) -> None:
    harness = await build(usd=1)
    harness.vendor.get_info = lambda: 1 / 0

    with pytest.raises(ZeroDivisionError):
        await harness.provider.complete(ask())

    assert harness.vendor.requests == []


async def test_rubbish_instead_of_a_response_is_charged_as_the_worst_case(build: Build) -> None:
    harness = await build(usd=1)

    async def rubbish(request: ChatRequest, **kwargs: Any) -> None:
        return None

    harness.vendor.complete = rubbish

    with pytest.raises(AttributeError):
        await harness.provider.complete(ask())

    assert harness.spent > 0
    assert harness.ledger.root.held.usd == 0


async def test_other_ways_to_the_vendor_are_closed(build: Build) -> None:
    harness = await build(usd=1)
    harness.vendor.stream = harness.vendor.complete
    harness.vendor.priority = 7

    assert not hasattr(harness.provider, "stream")
    assert harness.provider.priority == 7


async def test_tokens_are_counted_when_their_bytes_would_not_fit(build: Build) -> None:
    harness = await build(usd="0.05")
    counted: list[ChatRequest] = []

    async def count_tokens(request: ChatRequest) -> int:
        counted.append(request)
        return 4_000

    harness.vendor.count_tokens = count_tokens
    harness.vendor.report = using(4_000, 10)
    await harness.provider.complete(ask("hi"), max_output_tokens=100)
    assert counted == []

    await harness.provider.complete(ask("x" * 15_000), max_output_tokens=100)

    assert len(counted) == 1
    assert len(harness.vendor.requests) == 2


async def test_bytes_are_taken_when_tokens_cannot_be_counted(build: Build) -> None:
    harness = await build(usd="0.05")

    async def count_tokens(request: ChatRequest) -> int:
        raise RuntimeError("no")

    harness.vendor.count_tokens = count_tokens

    response = await harness.provider.complete(ask("x" * 15_000))

    assert harness.vendor.requests == []
    assert response.metadata == {"budget": "exhausted"}


async def test_a_picture_is_never_taken_for_its_address(build: Build) -> None:
    harness = await build(tokens=10_000)
    picture = ImageBlock(source={"type": "url", "url": "https://example.org/a.png"})
    request = ChatRequest(messages=[Message(role="user", content=[picture])])

    await harness.provider.complete(request)

    assert harness.vendor.requests == []


async def test_what_is_no_request_is_refused_as_one(build: Build) -> None:
    harness = await build(usd=1)

    with pytest.raises(llm_errors.InvalidRequestError):
        await harness.provider.complete({"messages": []})


# --- one price ------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{}, {"steps": 9}, {"tokens": 1_000_000}], ids=str)
async def test_a_cost_that_nobody_limits_has_no_worst_case(
    build: Build, limits: dict[str, Any]
) -> None:
    harness = await build(prices={}, **limits)

    def expensive(usage: Usage) -> Usage:
        return usage.model_copy(update={"cost_usd": Decimal(7)})

    harness.vendor.report = expensive

    await harness.provider.complete(ask())

    assert harness.told("budget:overrun") == []
    assert harness.screen.lines == []


async def test_a_known_price_is_the_cost_that_everybody_sees(build: Build) -> None:
    harness = await build()

    response = await harness.provider.complete(ask())

    assert response.usage is not None
    assert response.usage.cost_usd == harness.vendor.billed == harness.spent


async def test_the_price_in_the_plan_counts_for_a_budget(build: Build) -> None:
    harness = await build(usd=1, prices={})
    price_table(harness.coordinator).take_plan({"pricing": {"vendor": {"input": 3, "output": 15}}})

    await harness.provider.complete(ask())

    assert harness.spent == harness.vendor.billed > 0
