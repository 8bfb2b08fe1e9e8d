"""The worst case of a call fits what is left; its charge is what was reported, or what was seen."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amplifier_core import llm_errors
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolSpec,
    Usage,
)
from amplifier_kit.calls.call_costs import (
    ENDLESS,
    FREE_FAILURES,
    Amount,
    Fit,
    PartialAnswer,
    WorstCase,
    charge_for,
    charge_for_partial,
    likely_tokens,
    most_input_tokens,
    most_output_tokens,
)
from amplifier_kit.calls.prices import cost_usd, free
from amplifier_kit.calls.settings import Pricing

PRICING = Pricing(input=Decimal(3), output=Decimal(15), cache_read=Decimal("0.3"))
PICTURE = ImageBlock(source={"type": "url", "url": "https://example.org/a.png"})


def price(usage: Usage) -> Decimal:
    cost = cost_usd(None, "any", usage, PRICING)
    assert cost is not None
    return cost


def thousandth(usage: Usage) -> Decimal:
    """A price for the answer alone."""
    return Decimal(usage.output_tokens) / 1_000


def ask(*contents: Any, **fields: Any) -> ChatRequest:
    return ChatRequest(messages=[Message(role="user", content=each) for each in contents], **fields)


def reported(text: str, input_tokens: int, output_tokens: int, **more: Any) -> ChatResponse:
    total = input_tokens + output_tokens
    usage = Usage(
        input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=total, **more
    )
    return ChatResponse(content=[TextBlock(text=text)], usage=usage)


# --- before a call --------------------------------------------------------------------------------


def left(usd: str | int, tokens: str | int = "Infinity") -> Amount:
    """Return what is left of a budget that does not count calls."""
    return Amount(Decimal(usd), Decimal(tokens), ENDLESS.steps)


def need(usd: Decimal, tokens: int, output_tokens: int) -> Fit:
    """Return what one call needs."""
    return Fit(Amount(usd, Decimal(tokens), Decimal(1)), output_tokens)


def test_a_call_that_fits_may_be_as_long_as_it_was_asked_for() -> None:
    fit = WorstCase(price, input_tokens=1_000, wanted=4_000).fit(ENDLESS)

    assert fit == need(Decimal("0.063"), 5_000, 4_000)


@pytest.mark.parametrize(
    ("usd", "tokens", "output"),
    [("0.6", "2000", 600), ("2", "1500", 500), ("0.256", "1256", 256)],
)
def test_an_answer_is_shortened_rather_than_refused(usd: str, tokens: str, output: int) -> None:
    fit = WorstCase(thousandth, input_tokens=1_000, wanted=1_000).fit(left(usd, tokens))

    assert fit == need(Decimal(output) / 1_000, 1_000 + output, output)


@pytest.mark.parametrize(
    ("usd", "tokens", "lacking"),
    [("0.255", "Infinity", "usd"), ("-1", "Infinity", "usd"), ("Infinity", "1255", "tokens")],
)
def test_too_short_an_answer_is_not_worth_a_call(usd: str, tokens: str, lacking: str) -> None:
    call = WorstCase(thousandth, input_tokens=1_000, wanted=1_000)

    assert call.fit(left(usd, tokens)) == lacking


def test_without_a_call_left_nothing_else_is_looked_at() -> None:
    call = WorstCase(thousandth, input_tokens=1_000, wanted=1_000)

    assert call.fit(ENDLESS._replace(steps=Decimal(0))) == "steps"
    assert isinstance(call.fit(ENDLESS._replace(steps=Decimal(1))), Fit)


def test_a_short_answer_that_was_asked_for_is_worth_a_call() -> None:
    call = WorstCase(thousandth, input_tokens=0, wanted=9, least=100)

    assert call.fit(left("0.009")) == need(Decimal("0.009"), 9, 9)
    assert call.enough == 9


def test_input_is_taken_to_be_written_into_a_cache_where_that_costs_more() -> None:
    dear = PRICING.model_copy(update={"cache_write": Decimal(4)})

    def price(usage: Usage) -> Decimal:
        return cost_usd(None, "any", usage, dear) or Decimal(0)

    call = WorstCase(price, input_tokens=1_000_000, wanted=256)

    assert call.fit(ENDLESS) == need(Decimal("4.00384"), 1_000_256, 256)


@given(
    rate=st.integers(0, 90), step=st.integers(0, 9_000), leap=st.integers(0, 10**6),
    wanted=st.integers(1, 9_000), usd=st.integers(-9, 10**6), tokens=st.integers(0, 10_000),
)  # fmt: skip
@example(rate=0, step=600, leap=1_000, wanted=9_000, usd=999, tokens=10_000)
def test_whatever_the_price_a_call_needs_no_more_than_there_is(
    rate: int, step: int, leap: int, wanted: int, usd: int, tokens: int
) -> None:
    """The price may leap where an answer becomes long."""

    def leaping(usage: Usage) -> Decimal:
        return Decimal(rate * usage.output_tokens + leap * (usage.output_tokens > step))

    fit = WorstCase(leaping, input_tokens=500, wanted=wanted).fit(left(usd, tokens))

    if isinstance(fit, Fit):
        assert min(256, wanted) <= fit.output_tokens <= wanted
        usage = Usage(input_tokens=0, output_tokens=fit.output_tokens, total_tokens=0)
        assert fit.amount.usd == leaping(usage)
        assert fit.amount.usd <= usd
        assert fit.amount.tokens <= tokens


@given(usd=st.integers(0, 10**5), rate=st.integers(1, 90))
def test_where_every_token_costs_the_same_not_one_more_would_fit(usd: int, rate: int) -> None:
    def price(usage: Usage) -> Decimal:
        return Decimal(rate * usage.output_tokens)

    fit = WorstCase(price, input_tokens=0, wanted=9_000, least=1).fit(left(usd))

    assert (fit.output_tokens if isinstance(fit, Fit) else 0) == min(9_000, usd // rate)


def test_a_request_has_at_most_a_token_for_each_byte_and_a_picture_has_more() -> None:
    text, picture = most_input_tokens(ask("ü" * 500)), most_input_tokens(ask([PICTURE]))

    assert text >= 1_000 + 1_024
    assert picture >= 10_000
    assert likely_tokens(ask("word " * 800), 100) in range(1_100, 1_200)
    assert likely_tokens(ask([PICTURE]), 100) in range(1_100, 1_200)


@pytest.mark.parametrize(
    ("fields", "defaults", "most"),
    [
        ({"max_output_tokens": 9}, {"model": "m", "max_output_tokens": 77}, 9),
        ({}, {"model": "m", "max_output_tokens": 77}, 77),
        ({"model": "m"}, {"model": "m", "max_output_tokens": 77}, 77),
        ({}, {"max_output_tokens": 77}, 77),
        ({"model": "other"}, {"model": "m", "max_output_tokens": 77}, 8_192),
        ({}, {}, 8_192),
    ],
)
def test_an_answer_is_as_long_as_the_request_or_else_the_usual_model_allows(
    fields: dict[str, Any], defaults: dict[str, Any], most: int
) -> None:
    assert most_output_tokens(ask("hi", **fields), defaults) == most


# --- after a call ---------------------------------------------------------------------------------


def test_a_report_that_can_be_true_is_charged() -> None:
    charge = charge_for(ask("hi"), reported("Done.", 1_000, 100), price)

    assert charge == Amount(Decimal("0.0045"), Decimal(1_100))


def test_a_price_that_the_provider_tells_is_charged_if_it_is_higher() -> None:
    higher = reported("Done.", 1_000, 100, cost_usd=Decimal("0.01"))
    lower = reported("Done.", 1_000, 100, cost_usd=Decimal("0.001"))

    assert charge_for(ask("hi"), higher, price) == Amount(Decimal("0.01"), Decimal(1_100))
    assert charge_for(ask("hi"), lower, price) == Amount(Decimal("0.0045"), Decimal(1_100))


def test_what_was_seen_is_charged_if_less_is_reported() -> None:
    tool = ToolSpec(name="t", description="12345678" * 500, parameters={})
    result = ToolResultBlock(tool_call_id="1", output="12345678" * 500)
    request = ask([TextBlock(text="12345678" * 500), result], tools=[tool])

    charge = charge_for(request, reported("12345678" * 100, 2_500, 150), price)

    assert charge is not None
    assert charge.tokens in range(3_200, 3_300)


@pytest.mark.parametrize(("asked", "answered"), [(999, 500), (5_000, 99), (0, 0)])
def test_less_than_half_of_what_was_seen_cannot_be_true(asked: int, answered: int) -> None:
    request = ask("12345678" * 1_000)

    assert charge_for(request, reported("12345678" * 100, asked, answered), price) is None


def test_no_report_cannot_be_true() -> None:
    assert charge_for(ask("hi"), ChatResponse(content=[]), free) is None


def test_what_was_seen_beyond_the_report_counts_as_cached_like_the_rest() -> None:
    read = reported("", 1_600, 0, cache_read_tokens=800)

    charge = charge_for(ask("12345678" * 1_000), read, price)

    assert charge == Amount(
        (3 * Decimal(1_000) + Decimal("0.3") * 1_000) / 1_000_000, Decimal(2_000)
    )


def test_a_report_that_contradicts_itself_is_not_made_good_by_what_was_seen() -> None:
    def known(usage: Usage) -> Decimal:
        cost = cost_usd("openai", "gpt-4.1-mini", usage)
        if cost is None:
            raise ValueError("no price")
        return cost

    request = ask("12345678" * 1_000)

    assert charge_for(request, reported("", 1_500, 0, cache_read_tokens=1_500), known)
    assert charge_for(request, reported("", 1_500, 0, cache_read_tokens=1_800), known) is None


def test_no_failure_that_may_have_been_billed_is_free() -> None:
    kinds = [getattr(llm_errors, name) for name in FREE_FAILURES]

    assert all(issubclass(kind, llm_errors.LLMError) for kind in kinds)
    assert not {"NetworkError", "StreamError", "LLMTimeoutError"}.intersection(FREE_FAILURES)


# --- after a cancelled call -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("received", "output", "charged"),
    [
        (40, "reported", 10),
        (40, "estimated", 40 + 256),
        (0, "estimated", 256),
        (10_000, "estimated", 1_000),
        (40, "unknown", 1_000),
    ],
)
def test_a_cancelled_answer_is_charged_the_most_that_it_may_have_had(
    received: int, output: Any, charged: int
) -> None:
    usage = Usage(input_tokens=50, output_tokens=10, total_tokens=60, cache_read_tokens=20)

    found = charge_for_partial(
        ask("Go."), PartialAnswer(usage, received, output), price, most_output=1_000
    )

    cost = (30 * Decimal(3) + 20 * Decimal("0.3") + charged * Decimal(15)) / 1_000_000
    assert found == Amount(cost, Decimal(50 + charged))


def test_more_output_than_the_limit_is_charged_if_it_is_reported() -> None:
    usage = Usage(input_tokens=50, output_tokens=70, total_tokens=120)

    found = charge_for_partial(ask("Go."), PartialAnswer(usage, 0, "unknown"), free, most_output=60)

    assert found == Amount(Decimal(0), Decimal(120))


def test_an_input_that_cannot_be_true_is_not_believed_of_a_cancelled_answer() -> None:
    usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)

    found = charge_for_partial(
        ask("x" * 400), PartialAnswer(usage, 0, "reported"), price, most_output=60
    )

    assert found is None
