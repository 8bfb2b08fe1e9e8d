"""No call is made that is not paid for in advance, whatever ledger pays; two may pay for one call.

What the ledgers themselves do is tested with hooks-budget and with the runtime.
"""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from amplifier_core.llm_errors import InvalidRequestError, RateLimitError, StreamError
from amplifier_core.message_models import ChatRequest, ChatResponse, Message, TextBlock, Usage
from amplifier_core.models import ProviderInfo
from amplifier_core.testing import MockCoordinator
from amplifier_kit.calls.call_costs import (
    ENDLESS,
    Amount,
    PartialAnswer,
    WorstCase,
    most_input_tokens,
)
from amplifier_kit.calls.paid_provider import Hold, PaidProvider, note_cancelled, pay_retry

ASK = ChatRequest(messages=[Message(role="user", content="Go.")])


class Short(NamedTuple):
    cause: str


class Ledger:
    """Pays from what is `left`, and notes what it is asked for."""

    name = "test-ledger"
    price_tables = ()
    allows_unpriced = True
    charges_worst_case = False
    seconds: float | None = None

    def __init__(self, left: Amount = ENDLESS) -> None:
        self.coordinator = MockCoordinator()
        self.noted: list[str] = []
        self._left = left

    async def left(self) -> Amount:
        return self._left

    def seconds_left(self) -> float | None:
        return self.seconds

    def out_of_time(self) -> Short:
        return Short("1 of 1 seconds")

    async def hold(self, call: WorstCase) -> Hold | Short:
        self.noted.append("hold")
        fit = call.fit(self._left)
        if isinstance(fit, str):
            return Short(f"all {fit}")
        return Hold(fit.amount, None if self._left == ENDLESS else fit.output_tokens)

    async def hold_again(self, hold: Hold, call: WorstCase) -> Hold | Short:
        self.noted.append("again")
        return await self.hold(call)

    async def settle(self, hold: Hold, charge: Amount | None) -> None:
        self.noted.append("worst case" if charge is None else f"{charge.tokens} tokens")


class Vendor:
    """Fails once with `error` and tries again, as a provider does, which every payer hears."""

    name = "vendor"

    def __init__(self, error: type[Exception] | None = None, *payers: Ledger) -> None:
        self.requests: list[ChatRequest] = []
        self._error = error
        self._payers = payers

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="vendor", display_name="Vendor", defaults={"model": "m"})

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        self.requests.append(request)
        if self._error is not None:
            for payer in self._payers:
                await pay_retry(payer, {"error_type": self._error.__name__})
        usage = Usage(input_tokens=30, output_tokens=10, total_tokens=40)
        return ChatResponse(content=[TextBlock(text="Done.")], usage=usage)


class Offered(PaidProvider[Hold]):
    """Offers what the vendor does, so that another ledger can pay for the same calls."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def text_of(answer: ChatResponse) -> str:
    [block] = answer.content
    assert isinstance(block, TextBlock)
    return block.text


async def test_a_call_is_held_made_and_charged_what_it_took() -> None:
    ledger = Ledger()

    answer = await PaidProvider("v", Vendor(), ledger).complete(ASK)

    assert text_of(answer) == "Done."
    assert ledger.noted == ["hold", "40 tokens"]


async def test_a_call_that_does_not_fit_is_not_made() -> None:
    ledger, vendor = Ledger(ENDLESS._replace(steps=Decimal(0))), Vendor()

    answer = await PaidProvider("v", vendor, ledger).complete(ASK)

    assert vendor.requests == []
    assert ledger.noted == ["hold"]
    assert "all steps are used, and the next call does not fit" in text_of(answer)


@pytest.mark.parametrize(
    ("left", "longest"),
    [
        (ENDLESS, None),
        (ENDLESS._replace(tokens=Decimal(5_000)), 5_000 - most_input_tokens(ASK)),
    ],
)
async def test_an_answer_is_as_short_as_what_is_set_aside_for_it(
    left: Amount, longest: int | None
) -> None:
    vendor = Vendor()

    await PaidProvider("v", vendor, Ledger(left)).complete(ASK)

    assert vendor.requests[0].max_output_tokens == longest


async def test_each_of_two_ledgers_pays_for_a_retry_of_the_call_that_both_pay_for() -> None:
    """A session may have a budget of its own and be under that of a fleet."""
    own, fleet, other = Ledger(), Ledger(), Ledger()
    vendor = Vendor(StreamError, own, fleet, other)

    await PaidProvider("v", Offered("v", vendor, fleet), own).complete(ASK)

    assert own.noted == fleet.noted == ["hold", "again", "hold", "40 tokens"]
    assert other.noted == []


async def test_a_failure_that_is_certainly_not_billed_is_not_charged() -> None:
    ledger = Ledger()

    await PaidProvider("v", Vendor(RateLimitError, ledger), ledger).complete(ASK)

    assert ledger.noted == ["hold", "40 tokens"]


async def test_what_is_not_a_request_is_refused_before_anything_is_set_aside() -> None:
    ledger = Ledger()
    anything: Any = {"messages": []}

    with pytest.raises(InvalidRequestError, match="not a dict"):
        await PaidProvider("v", Vendor(), ledger).complete(anything)

    assert ledger.noted == []


class Leaving(Vendor):
    """Is cancelled in every call, and reports to its payers what it had used by then."""

    def __init__(self, provider: str, *payers: Ledger) -> None:
        super().__init__(None, *payers)
        self._provider = provider
        self.begun = asyncio.Event()

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            usage = Usage(input_tokens=30, output_tokens=10, total_tokens=40)
            record = PartialAnswer(usage, 0, "reported").record()
            for payer in self._payers:
                note_cancelled(payer, {"provider": self._provider, **record})
        raise AssertionError("nobody sets that event")


async def cancel(provider: PaidProvider[Hold], vendor: Leaving) -> None:
    call = asyncio.create_task(provider.complete(ASK))
    await vendor.begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_each_of_two_ledgers_charges_what_a_cancelled_call_used() -> None:
    own, fleet, other = Ledger(), Ledger(), Ledger()
    vendor = Leaving("vendor", own, fleet, other)

    await cancel(PaidProvider("v", Offered("v", vendor, fleet), own), vendor)

    assert own.noted == fleet.noted == ["hold", "40 tokens"]
    assert other.noted == []


@pytest.mark.parametrize("provider", ["another", None])
async def test_a_call_made_of_others_is_charged_the_worst_case(provider: Any) -> None:
    ledger = Ledger()
    vendor = Leaving(provider, ledger)

    await cancel(PaidProvider("v", vendor, ledger), vendor)

    assert ledger.noted == ["hold", "worst case"]


async def test_a_ledger_that_gives_nothing_back_keeps_the_worst_case_of_a_cancelled_call() -> None:
    ledger = Ledger()
    ledger.charges_worst_case = True
    vendor = Leaving("vendor", ledger)

    await cancel(PaidProvider("v", vendor, ledger), vendor)

    assert ledger.noted == ["hold", "worst case"]


async def test_a_call_that_runs_out_of_time_is_charged_what_it_used() -> None:
    ledger = Ledger()
    ledger.seconds = 0.001

    answer = await PaidProvider("v", Leaving("vendor", ledger), ledger).complete(ASK)

    assert ledger.noted == ["hold", "40 tokens"]
    assert "1 of 1 seconds are used" in text_of(answer)
