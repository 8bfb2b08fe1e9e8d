"""Limits that hold for the whole fleet: rates of vendors, budgets of trees, quotas of tenants."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amplifier_core import events
from amplifier_core.message_models import ChatRequest, ChatResponse
from amplifier_core.session import AmplifierSession
from amplifier_journal.proxy import Proxy
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
from amplifier_kit.calls.paid_provider import (
    BUDGET,
    BudgetTerms,
    PaidProvider,
    is_composite,
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


# Behind the journaled step: a call that was kept is neither counted nor paid for again.
_BEHIND_THE_STEP = sys.maxsize + 1
# A payment that takes longer has failed, and the call is not tried again.
_LONGEST_PAYMENT_SECONDS = 30.0


class Limits(TurnPart):
    """Puts the providers of every turn under what `rates` and `budgets` say.

    The budget of a tree is the one that the root's plan mounts, as its hook declares it by the
    capability `budget.terms`, unless `Budgets` has set another. An agent whose plan has another
    than its parent's has an account of its own, which its calls and those of all agents below it
    are paid from as well. The sessions above an agent are those that `Children` has opened.

    `prices` are US dollars per million tokens by provider or provider/model; those in a plan win.
    A provider that says `is_composite`, or is named in `composite_providers`, only asks others;
    these are counted instead.
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
        """Give the turn back when its tenant has as many running as it may."""
        assert self._database is not None
        if not await self._database.run(lambda c: admit(c, run.claim)):
            raise run.end(Suspended(DRAIN))

    async def attach(self, run: TurnRun) -> None:
        """Put the providers under the budgets and rates that there are."""
        assert self._database is not None
        budgets = Budgets(self._database)
        plans, purse, buckets = await self._database.run(lambda c: _open(c, run, budgets))
        tables = self._price_tables(run, plans)
        meter: Meter | None = None
        coordinator = run.session.coordinator
        if purse is not None:
            meter = Meter(run, budgets, purse, _terms(_budgets_in_line(run), tables))
            # A guard, so that children forked in this process have it too.
            coordinator.hooks.register(
                events.PROVIDER_RETRY,
                meter.pay_retry,
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
        coordinator.register_contributor("observability.events", NAME, EVENTS.copy)

    def _price_tables(self, run: TurnRun, plans: list[dict[str, Any]]) -> list[PriceTable]:
        """Return the prices of the sessions in a line, the root first.

        The session itself has those of the fleet from here, also where no money is limited, because
        what calls cost is shown.
        """
        above = zip(plans, map(_budget_of, run.ancestors), strict=False)
        tables = [_table_of(plan, budget) for plan, budget in above]
        tables.append(price_table(run.session.coordinator))
        for table in tables:
            table.take_fleet(self._prices)
        return tables

    def commit(self, connection: Connection, run: TurnRun, outcome: Outcome) -> None:
        """Leave nothing set aside for a turn that has ended."""
        settle_lost(connection, None, run.claim.turn_id)

    def _rates(self, tenant_id: str, provider: str, known: set[str]) -> dict[str, Bucket]:
        """Return the buckets of a provider: those of the tenant's own account, if it has one."""
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
    """Whether a claimed turn may run beside the others that its tenant has running."""
    sql = (
        "UPDATE tenants SET max_running = max_running "
        "WHERE tenant_id = :tenant AND max_running IS NOT NULL RETURNING max_running"
    )
    # This locks the tenant's row: two workers that claim at the same moment count one by one.
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
    """Open the accounts of a run, and return the plans in its line, its purse and all buckets."""
    claim = run.claim
    rows = ancestors_of(connection, child_of(connection, claim.session_id))
    line = {row["session_id"]: json.loads(row["plan"]) for row in rows}
    line[claim.session_id] = claim.plan
    *above, mine = _budgets_in_line(run)
    # What a child has from its parent's plan limits the parent already.
    if mine is not None and [mine] != above[-1:]:
        open_tree(connection, claim.tenant_id, claim.session_id, mine)
    if claim.runs > 1:
        check_fence(connection, claim.session_id, claim.epoch)
        settle_lost(connection, None, claim.turn_id)
    purse = budgets.purse(connection, claim.tenant_id, list(line))
    return list(line.values()), purse, bucket_names(connection)


def _budgets_in_line(run: TurnRun) -> list[BudgetTerms | None]:
    """Return what each session from the root down to that of the run limits."""
    return [_budget_of(each) for each in (*run.ancestors, run.session)]


def _budget_of(session: AmplifierSession) -> BudgetTerms | None:
    """Return what the plan of a session limits, as the hook that it mounts for this says."""
    return session.coordinator.get_capability(BUDGET)


def _terms(budgets: Sequence[BudgetTerms | None], tables: Sequence[PriceTable]) -> Terms:
    """Return what applies to the last of a line: nobody is more generous than those above it."""
    known = [each for each in budgets if each is not None]
    in_dollars = [each for each in known if each.usd is not None]
    # Dollars may be limited by a quota alone; then the root's plan decides.
    deciding = in_dollars or budgets[:1]
    return Terms(
        tables,
        allows_unpriced=all(each and each.unknown_price == "allow" for each in deciding),
        charges_worst_case=any(each.settle == "worst_case" for each in known),
    )


def _table_of(plan: dict[str, Any], budget: BudgetTerms | None) -> PriceTable:
    """Return the prices of a session that runs elsewhere, if it runs."""
    table = PriceTable(None if budget is None else budget.prices)
    table.take_plan(plan)
    for entry in plan.get("providers") or ():
        config: dict[str, Any] = entry.get("config") or {}
        if config.get("pricing"):
            name: str = config.get("name") or entry["module"].removeprefix("provider-")
            table.take_pricing(name, Pricing.model_validate(config["pricing"]))
    return table
