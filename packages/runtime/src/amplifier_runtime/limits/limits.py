"""Limits of the whole fleet: rates of vendors, budgets of trees, quotas of tenants."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amplifier_core import events
from amplifier_core.message_models import ChatRequest, ChatResponse, Usage
from amplifier_core.session import AmplifierSession
from amplifier_journal.proxy import Proxy
from amplifier_kit.calls.budget_notices import (
    DOUBTED,
    EXHAUSTED,
    OVERRUN,
    UNPRICED,
    WARNING,
    Notice,
    announce,
)
from amplifier_kit.calls.call_costs import Amount, WorstCase, likely_tokens, most_output_tokens
from amplifier_kit.calls.messages import with_options
from amplifier_kit.calls.model_calls import CALL_CANCELLED
from amplifier_kit.calls.paid_provider import (
    BUDGET,
    BudgetTerms,
    PaidProvider,
    is_composite,
    note_cancelled,
    pay_retry,
)
from amplifier_kit.calls.prices import PriceTable, price_table
from amplifier_kit.calls.settings import Pricing
from amplifier_runtime.children.child_rows import ancestors_of, child_of
from amplifier_runtime.database.database import Connection, Database, execute, one_of
from amplifier_runtime.errors import Fenced, Suspended
from amplifier_runtime.limits.budgets import Budgets, Hold, Purse, Shortage, open_tree, settle_lost
from amplifier_runtime.limits.rates import REQUESTS, TOKENS, Bucket, bucket_names
from amplifier_runtime.turns.claims import Claim, Outcome, check_fence
from amplifier_runtime.turns.journal import scope
from amplifier_runtime.turns.turn_run import DRAIN, Host, TurnPart, TurnRun

NAME = "runtime-limits"
EVENTS = [EXHAUSTED, WARNING, DOUBTED, OVERRUN, UNPRICED]
_WARN_AT = 0.8
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 1.0


@dataclass(frozen=True)
class Terms:
    """How calls are priced and charged; earlier price tables take precedence."""

    tables: Sequence[PriceTable]
    allows_unpriced: bool
    charges_worst_case: bool


class Meter:
    """The ledger of one run's calls: the accounts of a purse, under the fence of its turn."""

    name = NAME

    def __init__(self, run: TurnRun, budgets: Budgets, purse: Purse, terms: Terms) -> None:
        self.coordinator = run.session.coordinator
        self.price_tables = terms.tables
        self.allows_unpriced = terms.allows_unpriced
        self.charges_worst_case = terms.charges_worst_case
        self._run = run
        self._budgets = budgets
        self._purse = purse
        # Attempts by journaled call: each retry is reserved and charged under its own key.
        self._attempts: dict[str, int] = {}
        self._is_warned = False

    async def left(self) -> Amount:
        """Return what may still be used; limits may change while the turn runs."""
        return await self._budgets.left(self._run.claim.tenant_id, self._purse)

    def seconds_left(self) -> float | None:
        """Return None: the time of a durable turn is not limited."""
        return None

    def out_of_time(self) -> Shortage:
        """Raise: no call is stopped for its time."""
        raise AssertionError("the time of a durable turn is not limited")

    async def hold(self, call: WorstCase) -> Hold | Shortage:
        """Reserve the worst case; waits while running calls may release enough."""
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
        """Charge a failed attempt in full, and reserve the worst case of the next one."""
        await self.settle(hold, None)
        return await self.hold(call)

    async def settle(self, hold: Hold, charge: Amount | None) -> None:
        """Charge the cost of a call, and warn when most of the budget is used."""
        # A cancellation must not interrupt this: the call may have been billed.
        await asyncio.shield(self._settle(hold, charge))

    async def _settle(self, hold: Hold, charge: Amount | None) -> None:
        share = await self._fenced(self._budgets.settle(self._run.claim, hold, charge))
        if share >= _WARN_AT and not self._is_warned:
            self._is_warned = True
            notice = Notice(WARNING, {"share": share}, f"{share:.0%} of the budget is used.")
            await announce(self.coordinator, notice, source=NAME)

    async def pay_retry(self, event: str, data: dict[str, Any]) -> None:
        """Charge a failed attempt, and stop the call if another one does not fit."""
        await pay_retry(self, data)

    async def note_cancelled(self, event: str, data: dict[str, Any]) -> None:
        """Note what is known of the answer to a call that is being cancelled."""
        note_cancelled(self, data)

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
    """A provider whose calls are charged; calls answered from the journal do not reach it."""

    def __getattr__(self, name: str) -> Any:
        # `stream` is hidden: a streamed call reports its usage too late, if at all.
        if name.startswith("_") or name == "stream":
            raise AttributeError(name)
        return getattr(self._module, name)


class RatedProvider(Proxy):
    """A provider whose calls wait until the vendor's rate limits allow them."""

    __slots__ = ("_rates", "_run")

    def __init__(self, inner: Any, rates: dict[str, Bucket], run: TurnRun) -> None:
        super().__init__(inner)
        self._rates = rates
        self._run = run

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Wait until the call is allowed, make it, and return tokens that it did not use."""
        taken = await self._wait(request, kwargs)
        response: ChatResponse = await self._inner.complete(request, **kwargs)
        await self._return_unused(taken, response.usage)
        return response

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "stream" and callable(found):
            return self._rated(found)
        return found

    def _rated(self, stream: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
        async def chunks(request: ChatRequest, **kwargs: Any) -> AsyncIterator[Any]:
            taken = await self._wait(request, kwargs)
            usage = None
            async for chunk in stream(request, **kwargs):
                usage = chunk.get("usage") or usage
                yield chunk
            if usage is not None:
                await self._return_unused(taken, Usage.model_validate(usage))

        return chunks

    async def _return_unused(self, taken: int, usage: Usage | None) -> None:
        bucket = self._rates.get(TOKENS)
        if bucket is not None and usage is not None:
            await bucket.take_back(taken - usage.input_tokens - usage.output_tokens)

    async def _wait(self, request: ChatRequest, kwargs: dict[str, Any]) -> int:
        """Take from each bucket, and return how many tokens were taken."""
        taken = 0
        if TOKENS in self._rates:
            request, _ = with_options(request, kwargs)
            wanted = most_output_tokens(request, self._inner.get_info().defaults)
            taken = likely_tokens(request, wanted)
        for kind, bucket in self._rates.items():
            await bucket.take(taken if kind == TOKENS else 1)
        # Another worker may have claimed the turn while this one waited.
        self._run.check()
        return taken


# Inside of the journaled step: a call that the journal answers is neither counted nor charged.
_BEHIND_THE_STEP = sys.maxsize + 1
# A payment that takes longer counts as failed, and the call is not retried.
_LONGEST_PAYMENT_SECONDS = 30.0


class Limits(TurnPart):
    """Applies rates and budgets to the providers of every turn.

    The budget of a tree is the one that a hook of the root's plan declares by the capability
    `budget.terms`, unless `Budgets` has set another. An agent whose plan has a different budget
    than its parent's has an account of its own, which its calls and those of all its descendants
    are charged to as well. `Children` opens the ancestors of an agent.

    `prices` are US dollars per million tokens by provider or provider/model; those in a plan win.
    A provider that is `is_composite`, or is named in `composite_providers`, only calls others;
    those are counted instead.
    """

    def __init__(
        self,
        *,
        prices: Mapping[str, Pricing] | None = None,
        composite_providers: Sequence[str] = (),
    ) -> None:
        self._prices = dict(prices or {})
        self._composites = frozenset(composite_providers)
        self._buckets: dict[str, Bucket] = {}
        self._database: Database | None = None

    async def join(self, host: Host) -> None:
        """Use the worker's database."""
        self._database = host.database

    async def prepare(self, run: TurnRun) -> None:
        """Give the turn back if its tenant has as many running turns as allowed."""
        assert self._database is not None
        if not await self._database.run(lambda c: admit(c, run.claim)):
            raise run.end(Suspended(DRAIN))
        # Before the log is attached, which records the events that are known by then.
        coordinator = run.session.coordinator
        coordinator.register_contributor("observability.events", NAME, EVENTS.copy)

    async def attach(self, run: TurnRun) -> None:
        """Wrap the providers for the budgets and rates that apply."""
        assert self._database is not None
        budgets = Budgets(self._database)
        plans, purse, buckets = await self._database.run(lambda c: _open(c, run, budgets))
        tables = self._price_tables(run, plans)
        meter: Meter | None = None
        coordinator = run.session.coordinator
        if purse is not None:
            meter = Meter(run, budgets, purse, _terms(_budgets_in_line(run), tables))
            # Registered as a guard, because the kernel hands guards down to sessions forked here.
            coordinator.hooks.register(
                events.PROVIDER_RETRY,
                meter.pay_retry,
                name=NAME,
                timeout=_LONGEST_PAYMENT_SECONDS,
                on_error="deny",
            )
            coordinator.hooks.register(
                CALL_CANCELLED,
                meter.note_cancelled,
                name=NAME,
                timeout=_LONGEST_PAYMENT_SECONDS,
                on_error="deny",
            )
        elif not buckets:
            return

        def wrap(name: str, module: Any) -> Any:
            if name in self._composites or is_composite(module):
                return module
            if meter is not None:
                module = MeteredProvider(name, module, meter)
            rates = self._rates(run.claim.tenant_id, name, buckets)
            if rates:
                return RatedProvider(module, rates, run)
            return module

        coordinator.interpose("providers", wrap, name=NAME, priority=_BEHIND_THE_STEP, inherit=True)

    def _price_tables(self, run: TurnRun, plans: list[dict[str, Any]]) -> list[PriceTable]:
        """Return the price tables of the ancestors and of the session itself, root first.

        The session gets the fleet's prices here also without a budget, because costs are shown.
        """
        above = zip(plans, map(_budget_of, run.ancestors), strict=False)
        tables = [_table_of(plan, budget) for plan, budget in above]
        tables.append(price_table(run.session.coordinator))
        for table in tables:
            table.take_fleet(self._prices)
        return tables

    def commit(self, connection: Connection, run: TurnRun, outcome: Outcome) -> None:
        """Charge what is still reserved for the turn that ends."""
        settle_lost(connection, None, run.claim.turn_id)

    def _rates(self, tenant_id: str, provider: str, known: set[str]) -> dict[str, Bucket]:
        """Return the buckets of a provider; a tenant's own take precedence."""
        assert self._database is not None
        rates: dict[str, Bucket] = {}
        for kind in (REQUESTS, TOKENS):
            names = (f"{tenant_id}/{provider}:{kind}", f"{provider}:{kind}")
            name = next((each for each in names if each in known), None)
            if name is not None:
                bucket = self._buckets.get(name) or Bucket(self._database, name)
                rates[kind] = self._buckets[name] = bucket
        return rates


def admit(connection: Connection, claim: Claim) -> bool:
    """Whether a claimed turn may run beside the other running turns of its tenant."""
    sql = (
        "UPDATE tenants SET max_running = max_running "
        "WHERE tenant_id = :tenant AND max_running IS NOT NULL RETURNING max_running"
    )
    # Locks the tenant's row, so that two workers that claim at the same moment count in sequence.
    tenant = one_of(connection, sql, tenant=claim.tenant_id)
    if tenant is None:
        return True
    admitted = execute(
        connection,
        "UPDATE turns SET admitted_epoch = epoch WHERE turn_id = :turn AND epoch = :epoch "
        "AND (SELECT COUNT(*) FROM turns other WHERE other.tenant_id = :tenant "
        "AND other.state = 'running' AND other.admitted_epoch = other.epoch "
        "AND other.turn_id <> :turn) < :most",
        turn=claim.turn_id,
        epoch=claim.epoch,
        tenant=claim.tenant_id,
        most=tenant["max_running"],
    )
    return admitted == 1


def _open(
    connection: Connection, run: TurnRun, budgets: Budgets
) -> tuple[list[dict[str, Any]], Purse | None, set[str]]:
    """Open the accounts of a run; returns the plans from the root to it, its purse, all buckets."""
    claim = run.claim
    rows = ancestors_of(connection, child_of(connection, claim.session_id))
    line = {row["session_id"]: json.loads(row["plan"]) for row in rows}
    line[claim.session_id] = claim.plan
    *above, mine = _budgets_in_line(run)
    # A budget inherited from the parent's plan is charged in the parent's account already.
    if mine is not None and [mine] != above[-1:]:
        open_tree(connection, claim.tenant_id, claim.session_id, mine)
    # The lost runs of this turn may have left reservations open.
    if claim.runs > 1:
        check_fence(connection, claim.session_id, claim.epoch)
        settle_lost(connection, None, claim.turn_id)
    purse = budgets.purse(connection, claim.tenant_id, list(line))
    return list(line.values()), purse, bucket_names(connection)


def _budgets_in_line(run: TurnRun) -> list[BudgetTerms | None]:
    """Return the budget of each session, from the root down to that of the run."""
    return [_budget_of(each) for each in (*run.ancestors, run.session)]


def _budget_of(session: AmplifierSession) -> BudgetTerms | None:
    """Return the budget that a hook of a session declares, if any."""
    return session.coordinator.get_capability(BUDGET)


def _terms(budgets: Sequence[BudgetTerms | None], tables: Sequence[PriceTable]) -> Terms:
    """Return the terms of the last session of a line, which no agent can loosen."""
    known = [each for each in budgets if each is not None]
    in_dollars = [each for each in known if each.usd is not None]
    # If only a quota limits dollars, the root's plan decides.
    deciding = in_dollars or budgets[:1]
    return Terms(
        tables,
        allows_unpriced=all(each and each.unknown_price == "allow" for each in deciding),
        charges_worst_case=any(each.settle == "worst_case" for each in known),
    )


def _table_of(plan: dict[str, Any], budget: BudgetTerms | None) -> PriceTable:
    """Return the prices of an ancestor, whose providers are not mounted here."""
    table = PriceTable(None if budget is None else budget.prices)
    table.take_plan(plan)
    for entry in plan.get("providers") or ():
        config: dict[str, Any] = entry.get("config") or {}
        if config.get("pricing"):
            name: str = config.get("name") or entry["module"].removeprefix("provider-")
            table.take_pricing(name, Pricing.model_validate(config["pricing"]))
    return table
