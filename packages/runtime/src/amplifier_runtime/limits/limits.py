"""Limits that hold for the whole fleet: rates of vendors, budgets of trees, quotas of tenants."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from amplifier_core import events
from amplifier_core.session import AmplifierSession
from amplifier_kit.calls.paid_provider import BUDGET, BudgetTerms, is_composite
from amplifier_kit.calls.prices import PriceTable, price_table
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
