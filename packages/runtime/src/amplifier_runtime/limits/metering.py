"""A provider under the limits of the fleet: no call is made that is not paid for in advance."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from amplifier_core.llm_errors import LLMError
from amplifier_core.message_models import ChatRequest, ChatResponse, Usage
from amplifier_kit.calls.budget_news import (
    DOUBTED,
    OVERRUN,
    UNPRICED,
    news_of_charge,
)
from amplifier_kit.calls.call_costs import (
    FREE_FAILURES,
    is_free,
    likely_tokens,
    most_input_tokens,
    most_output_tokens,
)
from amplifier_kit.calls.last_answers import closing_answer
from amplifier_kit.calls.price_finder import PriceFinder
from amplifier_kit.calls.price_table import PriceTable, priced_at, with_cost
from amplifier_kit.calls.prices import Price, free
from amplifier_kit.notices import show
from amplifier_runtime.errors import Fenced
from amplifier_runtime.limits.budgets import Budgets, Hold, Purse, Shortage
from amplifier_runtime.limits.call_costs import CallCost, Charge, charge_for, in_dollars
from amplifier_runtime.limits.rates import Bucket
from amplifier_runtime.turns.journal import scope
from amplifier_runtime.turns.turn_run import TurnRun

__all__ = ["EVENTS", "NAME", "Meter", "MeteredProvider", "Terms", "pay_retry"]

NAME = "runtime-limits"
EXHAUSTED, WARNING = "budget:exhausted", "budget:warning"
EVENTS = [EXHAUSTED, WARNING, DOUBTED, OVERRUN, UNPRICED]
_WARN_AT = 0.8
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0


@dataclass(frozen=True)
class Terms:
    """How calls are priced and charged; of the price tables, the first comes first."""

    tables: Sequence[PriceTable]
    allows_unpriced: bool
    charges_worst_case: bool


@dataclass
class Meter:
    """What one run's calls are measured by; without a purse only rates are limited."""

    run: TurnRun
    budgets: Budgets
    purse: Purse | None
    terms: Terms
    counts: dict[str, int] = field(default_factory=dict[str, int])
    is_warned: bool = False

    def next_key(self) -> str:
        """Return the key of the next attempt inside the journaled call."""
        call = scope()
        self.counts[call] = self.counts.get(call, 0) + 1
        return f"{call}{self.counts[call]}"

    async def hold(self, call: CallCost) -> Hold | Shortage:
        """Set the worst case aside; waits for what others may give back."""
        assert self.purse is not None
        key, wait = self.next_key(), _FIRST_WAIT
        while True:
            self.run.check()
            held = await self._fenced(self.budgets.hold(self.run.claim, self.purse, key, call))
            if isinstance(held, Hold) or not held.may_wait:
                return held
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)

    async def settle(self, hold: Hold, charge: Charge | None) -> None:
        """Charge what a call did cost, and say it when the end is near."""
        share = await self._fenced(self.budgets.settle(self.run.claim, hold, charge))
        if share >= _WARN_AT and not self.is_warned:
            self.is_warned = True
            await self.announce(WARNING, {"share": share}, f"{share:.0%} of the budget is used.")

    async def limits_dollars(self) -> bool:
        """Whether money matters; that may change while the turn runs."""
        assert self.purse is not None
        return await self.budgets.limits_dollars(self.run.claim.tenant_id, self.purse)

    async def announce(self, event: str, facts: dict[str, Any], line: str) -> None:
        """Tell the hooks and the person."""
        coordinator = self.run.session.coordinator
        await coordinator.hooks.emit(event, facts)
        show(coordinator, line, source=NAME)

    async def _fenced(self, work: Any) -> Any:
        try:
            return await work
        except Fenced as fenced:
            raise self.run.end(fenced) from None


@dataclass
class _Flight:
    """A call that is under way."""

    meter: Meter
    call: CallCost
    hold: Hold
    clock: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    shortage: Shortage | None = None


_flight: ContextVar[_Flight | None] = ContextVar("amplifier_metered_call", default=None)


async def pay_retry(event: str, data: dict[str, Any]) -> None:
    """Charge an attempt that failed, and stop the call when another does not fit."""
    flight = _flight.get()
    if flight is None or data.get("error_type") in FREE_FAILURES:
        return
    await flight.meter.settle(flight.hold, None)
    held = await flight.meter.hold(flight.call)
    if isinstance(held, Hold):
        flight.hold = held
        return
    flight.shortage = held
    flight.clock.reschedule(asyncio.get_running_loop().time())


class MeteredProvider:
    """A provider behind its journaled step: a call that was kept does not come here."""

    def __init__(self, name: str, module: Any, meter: Meter, rates: dict[str, Bucket]) -> None:
        self._mounted_as = name
        self._module = module
        self._meter = meter
        self._rates = rates
        self._prices = PriceFinder(name, module)

    def __getattr__(self, name: str) -> Any:
        # A streamed call tells its usage too late, if at all.
        if name.startswith("_") or (name == "stream" and self._meter.purse is not None):
            raise AttributeError(name)
        return getattr(self._module, name)

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Wait for the vendor's turn, set the worst case aside, call, and charge what it took.

        Where the budget does not allow that, the answer says so and calls no tools.
        """
        if "max_tokens" in kwargs:
            kwargs["max_output_tokens"] = kwargs.pop("max_tokens")
        fields = {key: kwargs.pop(key) for key in list(kwargs) if key in ChatRequest.model_fields}
        request = request.model_copy(update=fields)
        wanted = most_output_tokens(request, self._module.get_info().defaults)
        taken = await self._wait_for_rates(request, wanted)
        # Somebody else may have the turn by now.
        self._meter.run.check()
        if self._meter.purse is None:
            response = await self._module.complete(request, **kwargs)
        else:
            response = await self._paid(request, wanted, kwargs)
        await self._correct_rates(taken, response.usage)
        return response

    async def _wait_for_rates(self, request: ChatRequest, wanted: int) -> int:
        taken = likely_tokens(request, wanted) if "tokens" in self._rates else 0
        for kind, bucket in self._rates.items():
            await bucket.take(taken if kind == "tokens" else 1)
        return taken

    async def _correct_rates(self, taken: int, usage: Usage | None) -> None:
        bucket = self._rates.get("tokens")
        if bucket is not None and usage is not None:
            await bucket.take_back(taken - usage.input_tokens - usage.output_tokens)

    async def _paid(self, request: ChatRequest, wanted: int, options: dict[str, Any]) -> Any:
        model: str = request.model or self._module.get_info().defaults.get("model") or ""
        price = await self._price(model)
        call = CallCost(price, most_input_tokens(request), wanted)
        held = await self._meter.hold(call)
        if isinstance(held, Hold):
            held = await self._make(request, options, call, held)
        if isinstance(held, ChatResponse):
            return held
        cause = f"{held.cause} are used, and the next call does not fit"
        facts = {"cause": cause, "answered_by": "budget"}
        await self._meter.announce(EXHAUSTED, facts, f"The turn ends: {cause}.")
        return closing_answer(cause, request)

    async def _make(
        self, request: ChatRequest, options: dict[str, Any], call: CallCost, hold: Hold
    ) -> ChatResponse | Shortage:
        request = request.model_copy(update={"max_output_tokens": hold.fit.output_tokens})
        meter = self._meter
        # What a call cost that nobody can tell of is its worst case.
        charge: Charge | None = None
        flight = _Flight(meter, call, hold)
        token = _flight.set(flight)
        try:
            async with flight.clock:
                with priced_at(call.price):
                    response: ChatResponse = await self._module.complete(request, **options)
            response = with_cost(response, call.price)
            charge = charge_for(request, response, call.price)
            if charge is not None and meter.terms.charges_worst_case:
                charge = charge.at_least(flight.hold.fit)
        except TimeoutError:
            if flight.shortage is None:
                raise
            return flight.shortage
        except LLMError as error:
            charge = Charge(0, 0) if is_free(error) else None
            raise
        finally:
            _flight.reset(token)
            if flight.shortage is None:
                await asyncio.shield(meter.settle(flight.hold, charge))
        charged = None if charge is None else in_dollars(charge)
        limits_dollars = charged is None or await meter.limits_dollars()
        held = in_dollars(flight.hold.fit)
        if news := news_of_charge(self._mounted_as, held, charged, limits_dollars=limits_dollars):
            await meter.announce(*news)
        return response

    async def _price(self, model: str) -> Price:
        meter = self._meter
        is_limited = await meter.limits_dollars()
        price = await self._prices.find(model, meter.terms.tables, is_limited=is_limited)
        if price is None and is_limited:
            is_refused = not meter.terms.allows_unpriced
            coordinator = meter.run.session.coordinator
            await self._prices.admit_unpriced(model, coordinator, NAME, is_refused=is_refused)
        return price or free
