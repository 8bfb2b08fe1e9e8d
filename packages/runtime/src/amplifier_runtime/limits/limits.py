"""Limits that hold for the whole fleet: rates of vendors, budgets of trees, quotas of tenants."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from amplifier_core import events
from amplifier_kit.calls.price_table import PriceTable, price_table
from amplifier_kit.calls.settings import Pricing
from amplifier_runtime.children.child_rows import ancestors_of, child_of
from amplifier_runtime.database.database import Connection, Database, execute, one_of
from amplifier_runtime.errors import Suspended
from amplifier_runtime.limits.budgets import Budgets, Purse, open_tree, settle_lost
from amplifier_runtime.limits.metering import (
    EVENTS,
    NAME,
    Meter,
    MeteredProvider,
    RatedProvider,
    Terms,
)
from amplifier_runtime.limits.rates import REQUESTS, TOKENS, Bucket, bucket_names
from amplifier_runtime.turns.claims import Claim, Outcome, check_fence
from amplifier_runtime.turns.turn_run import DRAIN, Host, TurnPart, TurnRun

__all__ = ["Limits", "admit"]

# Behind the journaled step: a call that was kept is neither counted nor paid for again.
_BEHIND_THE_STEP = sys.maxsize + 1
# A payment that takes longer has failed, and the call is not tried again.
_LONGEST_PAYMENT_SECONDS = 30.0
_BUDGET_HOOK = "hooks-budget"


class Limits(TurnPart):
    """Puts the providers of every turn under what `rates` and `budgets` say.

    The budget of a tree is the one that hooks-budget has in the root's plan, unless `Budgets` was
    told another; an agent whose plan has another than its parent's has an account of its own, which
    its calls and those of all agents below it are paid from as well.

    `prices` are US dollars per million tokens by provider or provider/model; those in a plan win.
    Providers of `composite_providers` only ask others, which are counted instead.
    """

    def __init__(
        self,
        *,
        prices: Mapping[str, Pricing] | None = None,
        composite_providers: Sequence[str] = ("failover",),
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
        """Stand between the journal and the providers, if anything limits them."""
        assert self._database is not None
        database, claim = self._database, run.claim
        budgets = Budgets(database)

        def read(connection: Connection) -> tuple[list[dict[str, Any]], Purse | None, set[str]]:
            line = _plans_in_line(connection, claim)
            above, mine = [{}, *map(_budget_in, line.values())][-2:]
            # What a child has from its parent's plan limits the parent already.
            if mine != above:
                open_tree(connection, claim.tenant_id, claim.session_id, mine)
            if claim.runs > 1:
                check_fence(connection, claim.session_id, claim.epoch)
                settle_lost(connection, None, claim.turn_id)
            purse = budgets.purse(connection, claim.tenant_id, list(line))
            return list(line.values()), purse, bucket_names(connection)

        plans, purse, buckets = await database.run(read)
        # Also where no money is limited, because what calls cost is shown.
        terms = _terms(plans, price_table(run.session.coordinator), self._prices)
        if purse is None and not buckets:
            return
        meter = None if purse is None else Meter(run, budgets, purse, terms)

        def wrap(name: str, module: Any) -> Any:
            if name in self._composites:
                return module
            if meter is not None:
                module = MeteredProvider(name, module, meter)
            rates = self._rates(claim.tenant_id, name, buckets)
            return RatedProvider(module, rates, run) if rates else module

        coordinator = run.session.coordinator
        coordinator.interpose("providers", wrap, name=NAME, priority=_BEHIND_THE_STEP, inherit=True)
        coordinator.register_contributor("observability.events", NAME, EVENTS.copy)
        if meter is not None:
            # A guard, so that children forked in this process have it too.
            coordinator.hooks.register(
                events.PROVIDER_RETRY,
                meter.pay_retry,
                name=NAME,
                timeout=_LONGEST_PAYMENT_SECONDS,
                on_error="deny",
            )

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
    # This holds the tenant's row: two workers that claim at the same moment count one by one.
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


def _plans_in_line(connection: Connection, claim: Claim) -> dict[str, dict[str, Any]]:
    """Return the plans of a session and of those above it, by session, the root first."""
    above = ancestors_of(connection, child_of(connection, claim.session_id))
    plans = {row["session_id"]: json.loads(row["plan"]) for row in above}
    plans[claim.session_id] = claim.plan
    return plans


def _budget_in(plan: dict[str, Any]) -> dict[str, Any]:
    for hook in plan.get("hooks") or ():
        if hook.get("module") == _BUDGET_HOOK:
            return hook.get("config") or {}
    return {}


def _terms(plans: Sequence[dict[str, Any]], own: PriceTable, fleet: Mapping[str, Pricing]) -> Terms:
    """Return what applies to the last of a line: nobody is more generous than those above it.

    `own` is the price table of the session itself, which is the last.
    """
    configs = [_budget_in(plan) for plan in plans]
    tables = [*(_table_of(plan) for plan in plans[:-1]), own]
    own.take_budget(_prices_in(configs[-1]))
    for table in tables:
        table.take_fleet(fleet)
    deciding = [each for each in configs if each.get("usd") is not None] or configs[:1]
    return Terms(
        tables,
        allows_unpriced=all(each.get("unknown_price") == "allow" for each in deciding),
        charges_worst_case=any(each.get("settle") == "worst_case" for each in configs),
    )


def _table_of(plan: dict[str, Any]) -> PriceTable:
    """Return the prices of a session that runs elsewhere, if it runs."""
    table = PriceTable(_prices_in(_budget_in(plan)))
    table.take_plan(plan)
    for entry in plan.get("providers") or ():
        config: dict[str, Any] = entry.get("config") or {}
        if config.get("pricing"):
            name: str = config.get("name") or entry["module"].removeprefix("provider-")
            table.take_pricing(name, Pricing.model_validate(config["pricing"]))
    return table


def _prices_in(budget: dict[str, Any]) -> dict[str, Pricing]:
    told: dict[str, Any] = budget.get("prices") or {}
    return {name: Pricing.model_validate(each) for name, each in told.items()}
