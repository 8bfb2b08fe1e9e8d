"""A provider under the limits of the fleet, which all workers share: budgets and rates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amplifier_core.message_models import ChatRequest, ChatResponse
from amplifier_foundation.proxy import Proxy
from amplifier_kit.calls.budget_news import (
    DOUBTED,
    EXHAUSTED,
    OVERRUN,
    UNPRICED,
    WARNING,
    News,
    announce,
)
from amplifier_kit.calls.call_costs import Amount, WorstCase, likely_tokens, most_output_tokens
from amplifier_kit.calls.messages import with_options
from amplifier_kit.calls.paid_provider import PaidProvider, pay_retry
from amplifier_kit.calls.prices import PriceTable
from amplifier_runtime.errors import Fenced
from amplifier_runtime.limits.budgets import Budgets, Hold, Purse, Shortage
from amplifier_runtime.limits.rates import TOKENS, Bucket
from amplifier_runtime.turns.journal import scope
from amplifier_runtime.turns.turn_run import TurnRun

__all__ = ["EVENTS", "NAME", "Meter", "MeteredProvider", "RatedProvider", "Terms"]

NAME = "runtime-limits"
EVENTS = [EXHAUSTED, WARNING, DOUBTED, OVERRUN, UNPRICED]
_WARN_AT = 0.8
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 1.0


@dataclass(frozen=True)
class Terms:
    """How calls are priced and charged; of the price tables, the first comes first."""

    tables: Sequence[PriceTable]
    allows_unpriced: bool
    charges_worst_case: bool


class Meter:
    """What one run's calls are paid from: the accounts of a purse, under the fence of its turn."""

    name = NAME

    def __init__(self, run: TurnRun, budgets: Budgets, purse: Purse, terms: Terms) -> None:
        self.coordinator = run.session.coordinator
        self.price_tables = terms.tables
        self.allows_unpriced = terms.allows_unpriced
        self.charges_worst_case = terms.charges_worst_case
        self._run = run
        self._budgets = budgets
        self._purse = purse
        # How many attempts each journaled call has made.
        self._attempts: dict[str, int] = {}
        self._is_warned = False

    async def left(self) -> Amount:
        """Return what may be used; limits may be changed while the turn runs."""
        return await self._budgets.left(self._run.claim.tenant_id, self._purse)

    def seconds_left(self) -> float | None:
        """Return None: the time of a durable turn is not limited."""
        return None

    def out_of_time(self) -> Shortage:
        """Raise, because no call is stopped for its time."""
        raise AssertionError("the time of a durable turn is not limited")

    async def hold(self, call: WorstCase) -> Hold | Shortage:
        """Set the worst case aside; waits for what others may give back."""
        key = self._next_key()
        wait = _FIRST_WAIT
        while True:
            self._run.check()
            held = await self._fenced(self._budgets.hold(self._run.claim, self._purse, key, call))
            if isinstance(held, Hold) or not held.may_wait:
                return held
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)

    async def hold_again(self, hold: Hold, call: WorstCase) -> Hold | Shortage:
        """Charge the attempt that failed in full, and set the worst case of the next one aside."""
        await self.settle(hold, None)
        return await self.hold(call)

    async def settle(self, hold: Hold, charge: Amount | None) -> None:
        """Charge what a call did cost, and announce it when the end is near."""
        await asyncio.shield(self._settle(hold, charge))

    async def _settle(self, hold: Hold, charge: Amount | None) -> None:
        share = await self._fenced(self._budgets.settle(self._run.claim, hold, charge))
        if share >= _WARN_AT and not self._is_warned:
            self._is_warned = True
            news = News(WARNING, {"share": share}, f"{share:.0%} of the budget is used.")
            await announce(self.coordinator, news, source=NAME)

    async def pay_retry(self, event: str, data: dict[str, Any]) -> None:
        """Charge an attempt that failed, and stop the call when another does not fit."""
        await pay_retry(self, data)

    def _next_key(self) -> str:
        """Return the key of the next attempt inside the journaled call."""
        call = scope()
        self._attempts[call] = self._attempts.get(call, 0) + 1
        return f"{call}{self._attempts[call]}"

    async def _fenced(self, work: Any) -> Any:
        try:
            return await work
        except Fenced as fenced:
            raise self._run.end(fenced) from None


class MeteredProvider(PaidProvider[Hold]):
    """A provider whose calls are paid for; one that was kept in the journal does not come here."""

    def __getattr__(self, name: str) -> Any:
        # A streamed call reports its usage too late, if at all.
        if name.startswith("_") or name == "stream":
            raise AttributeError(name)
        return getattr(self._module, name)


class RatedProvider(Proxy):
    """A provider whose calls wait until the vendor's rates allow them; by kind of bucket."""

    __slots__ = ("_rates", "_run")

    def __init__(self, inner: Any, rates: dict[str, Bucket], run: TurnRun) -> None:
        super().__init__(inner)
        self._rates = rates
        self._run = run

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Wait until the call is allowed, make it, and correct what was taken for it."""
        taken = await self._wait(request, kwargs)
        # Somebody else may have the turn by now.
        self._run.check()
        response: ChatResponse = await self._inner.complete(request, **kwargs)
        bucket = self._rates.get(TOKENS)
        if bucket is not None and response.usage is not None:
            used = response.usage.input_tokens + response.usage.output_tokens
            await bucket.take_back(taken - used)
        return response

    async def _wait(self, request: ChatRequest, kwargs: dict[str, Any]) -> int:
        """Take from each bucket, and return how many tokens that were."""
        taken = 0
        if TOKENS in self._rates:
            request, _ = with_options(request, kwargs)
            wanted = most_output_tokens(request, self._inner.get_info().defaults)
            taken = likely_tokens(request, wanted)
        for kind, bucket in self._rates.items():
            await bucket.take(taken if kind == TOKENS else 1)
        return taken
