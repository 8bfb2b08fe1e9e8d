"""Limits that hold for the whole fleet: rates of vendors, budgets of trees, quotas of tenants."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from amplifier_core import events
from amplifier_kit.calls.settings import Pricing
from amplifier_runtime.budgets import Budgets, Purse, admit, open_tree, settle_lost
from amplifier_runtime.child_rows import root_of
from amplifier_runtime.claims import Outcome, check_fence
from amplifier_runtime.database import Connection, Database
from amplifier_runtime.errors import Suspended
from amplifier_runtime.metering import EXHAUSTED, NAME, WARNING, Meter, MeteredProvider, pay_retry
from amplifier_runtime.rates import REQUESTS, TOKENS, Bucket, bucket_names
from amplifier_runtime.turns import DRAIN, TurnPart, TurnRun

if TYPE_CHECKING:
    from amplifier_runtime.worker import Worker

__all__ = ["Limits"]

# Behind the journaled step: a call that was kept is neither counted nor paid for again.
_BEHIND_THE_STEP = sys.maxsize + 1
_BUDGET_HOOK = "hooks-budget"


class Limits(TurnPart):
    """Puts the providers of every turn under what `rates` and `budgets` say.

    The budget of a tree is the one that hooks-budget has in the root's plan, unless `Budgets` was
    told another. `prices` are US dollars per million tokens by provider or provider/model; those in
    a plan win. Providers of `composite_providers` only ask others, which are counted instead.
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

    async def join(self, worker: Worker) -> None:
        """Use the worker's database."""
        self._database = worker.database

    async def prepare(self, run: TurnRun) -> None:
        """Give the turn back when its tenant has as many running as it may."""
        assert self._database is not None
        if not await self._database.run(lambda c: admit(c, run.claim)):
            raise run.end(Suspended(DRAIN))

    async def attach(self, run: TurnRun) -> None:
        """Stand between the journal and the providers, if anything limits them."""
        assert self._database is not None
        database, claim = self._database, run.claim
        config = _budget_in(claim.plan)
        budgets = Budgets(database)

        def read(connection: Connection) -> tuple[Purse | None, set[str]]:
            root = root_of(connection, claim.session_id)
            if root == claim.session_id:
                open_tree(connection, claim.tenant_id, root, config)
            if claim.runs > 1:
                check_fence(connection, claim.session_id, claim.epoch)
                settle_lost(connection, None, claim.turn_id)
            return budgets.purse(connection, claim.tenant_id, root), bucket_names(connection)

        purse, buckets = await database.run(read)
        if purse is None and not buckets:
            return
        told = {
            name: Pricing.model_validate(each) for name, each in config.get("prices", {}).items()
        }
        allows_unpriced = config.get("unknown_price") == "allow"
        meter = Meter(run, budgets, purse, {**self._prices, **told}, allows_unpriced)

        def wrap(name: str, module: Any) -> Any:
            if name in self._composites:
                return module
            return MeteredProvider(name, module, meter, self._rates(claim.tenant_id, name, buckets))

        coordinator = run.session.coordinator
        coordinator.interpose("providers", wrap, name=NAME, priority=_BEHIND_THE_STEP, inherit=True)
        # A guard, so that children forked in this process have it too.
        coordinator.hooks.register(events.PROVIDER_RETRY, pay_retry, name=NAME, on_error="deny")
        coordinator.register_contributor("observability.events", NAME, lambda: [EXHAUSTED, WARNING])

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


def _budget_in(plan: dict[str, Any]) -> dict[str, Any]:
    """Return what a plan says of its budget."""
    for hook in plan.get("hooks") or ():
        if hook.get("module") == _BUDGET_HOOK:
            return hook.get("config") or {}
    return {}
