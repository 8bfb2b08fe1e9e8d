"""The budget as one session sees it: its account, its announcements and its children."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.calls.budget_news import DOUBTED, OVERRUN, UNPRICED
from amplifier_kit.calls.call_costs import FREE_FAILURES
from amplifier_kit.notices import show
from amplifier_module_hooks_budget.ledger import Account, Hold, Ledger, Shortage

NAME = "hooks-budget"
WARNING = "budget:warning"
EXHAUSTED = "budget:exhausted"
REFUSED = "budget:lease_refused"
EVENTS = [WARNING, EXHAUSTED, DOUBTED, OVERRUN, UNPRICED, REFUSED]


@dataclass(slots=True)
class Flight:
    """A call that is under way."""

    budget: SessionBudget
    hold: Hold
    clock: asyncio.Timeout | None = None
    shortage: Shortage | None = None


FLIGHT: ContextVar[Flight | None] = ContextVar("budget_flight", default=None)


class SessionBudget:
    """One for each session; without an account, its agent may not call a model."""

    def __init__(
        self,
        coordinator: ModuleCoordinator,
        ledger: Ledger,
        account: Account | None,
        refusal: str | None = None,
    ) -> None:
        self.coordinator = coordinator
        self.ledger = ledger
        self.account = account
        self.refusal = refusal

    async def announce(self, event: str, facts: dict[str, Any], line: str) -> None:
        """Tell the hooks and the person."""
        await self.coordinator.hooks.emit(event, facts)
        show(self.coordinator, line, source=NAME)

    async def lease(self, child_session_id: str, depth: int | None = None) -> str | None:
        """Give a child its share before it is spawned; returns why it must not be."""
        refusal = self.refusal
        if self.account is not None:
            refusal = self.ledger.lease(self.account, child_session_id, depth)
        if refusal:
            facts = {"child_session_id": child_session_id, "reason": refusal}
            await self.announce(REFUSED, facts, f"No agent was started: {refusal}.")
        return refusal

    def status(self) -> dict[str, Any]:
        """Return what the whole tree has used, for those who show it."""
        ledger, root = self.ledger, self.ledger.root
        return {
            "used": {**root.used.record(), "seconds": ledger.seconds()},
            "held": root.held.record(),
            "limits": ledger.config.model_dump(
                mode="json", include={"usd", "tokens", "steps", "seconds", "depth", "breadth"}
            ),
            "share": ledger.share_used(root),
            "agents": len(ledger.accounts),
        }

    async def warn(self) -> None:
        """Say once of each limit that its end is near."""
        for account in self.ledger.newly_near(self.account) if self.account else ():
            share = self.ledger.share_used(account)
            facts = {"agent": account.agent, "share": share, **self.status()}
            whose = "the budget" if account.parent is None else f"the share of {account.agent}"
            await self.announce(WARNING, facts, f"{share:.0%} of {whose} is used.")

    def reminder(self) -> str:
        """Return what the model is told with each request when little is left."""
        accounts = self.account.lineage if self.account else ()
        share = max(map(self.ledger.share_used, accounts), default=0.0)
        if share < self.ledger.config.warn_at:
            return ""
        return f"{share:.0%} of the budget for this work is used. Come to an end soon."

    async def pay_retry(self, event: str, data: dict[str, Any]) -> None:
        """Charge an attempt that failed, and stop the call when another does not fit."""
        flight = FLIGHT.get()
        if flight is None or flight.budget is not self or data.get("error_type") in FREE_FAILURES:
            return
        flight.shortage = self.ledger.hold_again(flight.hold)
        if flight.shortage is not None and flight.clock is not None:
            flight.clock.reschedule(asyncio.get_running_loop().time())
