"""The ledger of a tree of agents: what each has used, has reserved, and has left."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from amplifier_kit.calls import paid_provider
from amplifier_kit.calls.call_costs import ENDLESS, Amount, WorstCase
from amplifier_kit.calls.prices import PriceTable
from amplifier_module_hooks_budget.config import BudgetConfig

# With less than this left, no child is worth starting.
_SMALLEST = Amount(Decimal("0.000001"), Decimal(1), Decimal(1))


@dataclass(slots=True, eq=False)
class Account:
    """One agent's account in the tree; what its descendants use counts here too."""

    agent: str
    parent: Account | None
    depth: int
    limit: Amount
    config: BudgetConfig
    used: Amount = Amount()
    held: Amount = Amount()
    children: int = 0
    is_warned: bool = False
    prices: PriceTable | None = None  # of its own session; None: as its parent
    lineage: tuple[Account, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.lineage = (self, *(self.parent.lineage if self.parent else ()))


@dataclass(slots=True)
class Hold(paid_provider.Hold):
    """The amount that is reserved for a call, and the account it is reserved from."""

    account: Account


class Shortage(NamedTuple):
    """The limit that a call would exceed, and the account that has it."""

    limit: str
    account: Account
    ledger: TreeLedger

    @property
    def cause(self) -> str:
        """How much of the limit is used."""
        if self.limit == "seconds":
            return f"{self.ledger.seconds():.0f} of {self.ledger.config.seconds:g} seconds"
        used = getattr(self.account.used, self.limit)
        most = getattr(self.account.limit, self.limit)
        if self.limit == "usd":
            text = f"USD {used:.4f} of {most:.4f}"
        else:
            unit = "tokens" if self.limit == "tokens" else "model calls"
            text = f"{used:,.0f} of {most:,.0f} {unit}"
        if self.account.parent is None:
            return text
        return f"{text} of this agent's share"


class TreeLedger:
    """The ledger of a whole tree, shared by its sessions in whatever threads they run.

    Nothing is reserved beyond the limits of an agent and of all agents above it. `state` always has
    what a later process needs to continue from here; what was reserved when it was last written
    counts as used then, because the call may have been billed before the crash.
    """

    def __init__(self, root: str, config: BudgetConfig, state: dict[str, Any]) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._state = state
        # The time of the first call, moved by the seconds that earlier processes have used.
        self._began: float | None = None
        self.accounts: dict[str, Account] = {}
        # Parents first, which ids do not guarantee: published ids of children begin with zeros.
        for record in sorted(state.setdefault("agents", {}).values(), key=lambda it: it["depth"]):
            self._open(self._restored(record))
        if not self.accounts:
            self._open(Account(root, None, 0, ENDLESS, config))
        self.root = next(iter(self.accounts.values()))
        self.root.limit = limit_of(config.usd, config.tokens, config.steps)

    async def hold(
        self, account: Account, call: WorstCase, *, final: bool = False
    ) -> Hold | Shortage:
        """Reserve the worst case of `call`, with a shorter answer if necessary.

        If running calls may give back enough to make more room, wait for them. A final call may use
        the reserve for last answers.
        """
        if self._began is None:
            self._began = time.monotonic() - float(self._state.get("seconds", 0))
        while True:
            left = self.seconds_left(final=final)
            if left is not None and left <= 0:
                return self.out_of_time()
            # The future is registered under the same lock, so that no `settle` is missed.
            with self._lock:
                outcome = self._try(account, call, final=final)
                if outcome is not None:
                    return outcome
                loop = asyncio.get_running_loop()
                change = loop.create_future()
                self._waiting.append((loop, change))
            await asyncio.wait([change], timeout=left)

    def out_of_time(self) -> Shortage:
        """Return the shortage of time of the whole tree."""
        return Shortage("seconds", self.root, self)

    def hold_again(self, hold: Hold) -> Shortage | None:
        """Charge `hold` in full and reserve the same again, if that fits."""
        with self._lock:
            self._book(hold, hold.amount)
            # A retry is the same model call: it is not counted as another step.
            again = hold.amount._replace(steps=Decimal(0))
            lacking = self.room(hold.account).minus(again).lacking()
            hold.amount = Amount() if lacking else again
            self._set_aside(hold)
            if lacking:
                return self._shortage(hold.account, lacking)
            return None

    def settle(self, hold: Hold, charge: Amount | None) -> None:
        """Charge the cost of a call, or all of `hold` if it is unknown, and release the rest."""
        if charge is None:
            charge = hold.amount
        else:
            charge = charge._replace(steps=hold.amount.steps)
        with self._lock:
            self._book(hold, charge)
            self._state["seconds"] = self.seconds()
            waiting = self._waiting
            self._waiting = []
        # A future may only be completed in its own loop, and sessions may run in other threads.
        for loop, change in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, change)

    def lease(self, parent: Account, child: str, depth: int | None = None) -> str | None:
        """Open the account of a child with a share of what is left, or return why not."""
        config = self.config
        with self._lock:
            if child in self.accounts:
                return None
            depth = max(parent.depth + 1, depth or 0)
            if config.depth is not None and depth > config.depth:
                return f"agents may be nested {config.depth} deep"
            if config.breadth is not None and parent.children >= config.breadth:
                return f"an agent may have {config.breadth} children"
            # Running calls have reserved their worst case, and may give much of it back.
            room = self.room(parent, ignoring_holds=True)
            if lacking := room.minus(_SMALLEST).lacking():
                return f"the budget in {lacking} is used up"
            share = config.child_share
            leased = Amount(room.usd * share, room.tokens * share, ENDLESS.steps)
            self._open(Account(child, parent, depth, leased, parent.config))
        return None

    def join(self, agent: str) -> Account:
        """Open the account of a session that shares this ledger, without a limit of its own."""
        with self._lock:
            account = self.accounts.get(agent)
            if account is None:
                account = Account(agent, self.root, self.root.depth, ENDLESS, self.config)
                self._open(account)
            return account

    def leave(self, agent: str) -> None:
        """Close an account and those below it; what they used stays charged to the root."""
        with self._lock:
            for each in [*self.accounts.values()]:
                if any(above.agent == agent for above in each.lineage):
                    del self.accounts[each.agent]
                    del self._state["agents"][each.agent]

    def seconds(self) -> float:
        """Return the time since the first call of the tree."""
        if self._began is None:
            return 0.0
        return time.monotonic() - self._began

    def seconds_left(self, *, final: bool = False) -> float | None:
        """Return how much time is left; None without a limit."""
        limit = self.config.seconds
        if limit is None:
            return None
        if final:
            kept = 0
        else:
            kept = limit * float(self.config.final_answer_reserve)
        return limit - kept - self.seconds()

    def share_used(self, account: Account) -> float:
        """Return the used share of the limit that is nearest to its end."""
        shares = [used / limit for used, limit in zip(account.used, account.limit, strict=True)]
        seconds = self.config.seconds
        if seconds is None or account.parent:
            of_time = 0
        else:
            of_time = self.seconds() / seconds
        return max(of_time, *map(float, shares))

    def newly_near(self, account: Account) -> list[Account]:
        """Return the accounts of a lineage that are near their limit, each only once."""
        unwarned = [each for each in account.lineage if not each.is_warned]
        near = [each for each in unwarned if self.share_used(each) >= self.config.warn_at]
        for each in near:
            each.is_warned = True
        return near

    def _try(self, account: Account, call: WorstCase, *, final: bool) -> Hold | Shortage | None:
        """Return a hold, or why there is none; None if waiting would give more room."""
        left = self.room(account, final=final)
        fit = call.fit(left)
        if isinstance(fit, str) or fit.output_tokens < call.enough:
            later = call.fit(self.room(account, final=final, ignoring_holds=True))
            if not isinstance(later, str) and later != fit:
                return None
        if isinstance(fit, str):
            return self._shortage(account, fit)
        limits_answer = left.usd.is_finite() or left.tokens.is_finite()
        hold = Hold(fit.amount, fit.output_tokens if limits_answer else None, account)
        self._set_aside(hold)
        return hold

    def room(
        self, account: Account, *, final: bool = False, ignoring_holds: bool = False
    ) -> Amount:
        """Return what an agent may use by its own limits and those of all above it."""
        room = ENDLESS
        for each in account.lineage:
            left = self._left(each, whole=final and each is account)
            # A running call counts as a step however cheap it turns out to be.
            if ignoring_holds:
                given_back = each.held._replace(steps=Decimal(0))
            else:
                given_back = Amount()
            room = room.at_most(left.plus(given_back))
        return room

    def _left(self, account: Account, *, whole: bool = False) -> Amount:
        """Return what is left of an account; if not `whole`, without the last answer's reserve."""
        limit = account.limit
        kept = self.config.final_answer_reserve
        if kept and not whole:
            # A share of the steps may be less than one, so a whole step is kept.
            calls = limit.steps - 1 if limit.steps > 1 else limit.steps
            limit = Amount(limit.usd * (1 - kept), limit.tokens * (1 - kept), calls)
        return limit.minus(account.used).minus(account.held)

    def _shortage(self, account: Account, limit: str) -> Shortage:
        whose = min(account.lineage, key=lambda each: getattr(self._left(each), limit))
        return Shortage(limit, whose, self)

    def _set_aside(self, hold: Hold) -> None:
        for each in hold.account.lineage:
            each.held = each.held.plus(hold.amount)
            self._record(each)

    def _book(self, hold: Hold, charge: Amount) -> None:
        for each in hold.account.lineage:
            each.held = each.held.minus(hold.amount)
            each.used = each.used.plus(charge)
            self._record(each)

    def _open(self, account: Account) -> None:
        if account.parent is not None:
            account.parent.children += 1
        self.accounts[account.agent] = account
        self._record(account)

    def _record(self, account: Account) -> None:
        # A call may still run when its session has left.
        if account.agent not in self.accounts:
            return
        self._state["agents"][account.agent] = {
            "agent": account.agent,
            "parent": None if account.parent is None else account.parent.agent,
            "depth": account.depth,
            "limit": account.limit.record(),
            "used": account.used.plus(account.held).record(),
        }

    def _restored(self, record: dict[str, Any]) -> Account:
        if record["parent"] is None:
            parent = None
        else:
            parent = self.accounts[record["parent"]]
        limit = amount_from(record["limit"])
        used = amount_from(record["used"])
        return Account(record["agent"], parent, record["depth"], limit, self.config, used)


def limit_of(usd: Decimal | None, tokens: int | None, steps: int | None) -> Amount:
    """Return an amount, in which None becomes no limit."""
    limits = zip((usd, tokens, steps), ENDLESS, strict=True)
    return Amount(*(endless if each is None else Decimal(each) for each, endless in limits))


def amount_from(record: dict[str, str]) -> Amount:
    """Return the amount in a record."""
    return Amount(*(Decimal(record[name]) for name in Amount._fields))


def _wake(change: asyncio.Future[None]) -> None:
    if not change.done():
        change.set_result(None)
