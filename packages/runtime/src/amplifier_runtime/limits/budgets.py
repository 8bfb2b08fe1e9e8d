"""Budgets of money and tokens: reserved before a call, settled after it, shared by all workers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from amplifier_kit.calls import paid_provider
from amplifier_kit.calls.call_costs import ENDLESS, Amount, Fit, WorstCase
from amplifier_kit.calls.paid_provider import BudgetTerms
from amplifier_runtime.database.database import (
    Connection,
    Database,
    Row,
    all_of,
    execute,
    one_of,
    read_now,
)
from amplifier_runtime.database.store import own_session
from amplifier_runtime.turns.claims import Claim, check_fence

__all__ = ["NANO", "Budgets", "Hold", "Purse", "Shortage", "open_tree", "settle_lost"]

Period = Literal["day", "month"]
# Money is stored in billionths of a US dollar: integers, which every database adds exactly.
NANO = 1_000_000_000
# The prefixes of the columns of an account, in the order of the fields of Amount.
_UNITS = ("usd", "token", "call")
_ACCOUNT = "SELECT * FROM accounts WHERE account_id = :account"
# The run that made the call has ended without settling it, and no later run will.
_IS_LOST = (
    "state = 'open' AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.turn_id = holds.turn_id "
    "AND t.state = 'running' AND t.epoch = holds.epoch)"
)


class Purse(NamedTuple):
    """The accounts that a turn's calls are charged to.

    That of its tree, that of its tenant's period, and those of agents from the root down to it that
    have a budget of their own.
    """

    tree: str
    quota: str
    own: tuple[str, ...] = ()

    @property
    def accounts(self) -> list[str]:
        """All accounts, sorted, so that two calls that lock them cannot deadlock."""
        return sorted((self.tree, self.quota, *self.own))


@dataclass(slots=True)
class Hold(paid_provider.Hold):
    """The amount reserved for one attempt at a call, and the key of its row."""

    key: str


class Shortage(NamedTuple):
    """Why a call does not fit; `may_wait` if running calls may release what they reserved."""

    cause: str
    may_wait: bool


class Budgets:
    """The accounts of trees and tenants. An amount of None means no limit."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set_tree(
        self,
        tenant_id: str,
        root_id: str,
        *,
        usd: Decimal | None = None,
        tokens: int | None = None,
        calls: int | None = None,
    ) -> None:
        """Set what a session and its descendants may use; what they have used still counts.

        Raises:
            NotFoundError: there is no such session.
        """

        def work(connection: Connection) -> None:
            key = own_session(connection, tenant_id, root_id)["session_id"]
            open_account(connection, _tree(key), tenant_id, usd, tokens, calls, renew=True)

        await self._database.run(work)

    async def set_quota(
        self,
        tenant_id: str,
        period: Period,
        *,
        usd: Decimal | None = None,
        tokens: int | None = None,
    ) -> None:
        """Set what a tenant may use in each day or month (UTC)."""

        def work(connection: Connection) -> None:
            execute(
                connection,
                "INSERT INTO quotas (tenant_id, period, usd, tokens) "
                "VALUES (:tenant, :period, :usd, :tokens) ON CONFLICT (tenant_id) DO UPDATE "
                "SET period = excluded.period, usd = excluded.usd, tokens = excluded.tokens",
                tenant=tenant_id,
                period=period,
                usd=_limit(usd),
                tokens=tokens,
            )

        await self._database.run(work)

    async def status(self, tenant_id: str, root_id: str) -> dict[str, Any] | None:
        """Return what a tree has used and reserved, and its limits; None without a budget.

        Raises:
            NotFoundError: there is no such session.
        """

        def work(connection: Connection) -> Row | None:
            key = own_session(connection, tenant_id, root_id)["session_id"]
            return one_of(connection, _ACCOUNT, account=_tree(key))

        row = await self._database.run(work)
        return None if row is None else _status(row)

    def purse(self, connection: Connection, tenant_id: str, line: Sequence[str]) -> Purse | None:
        """Return the accounts that a session's calls are charged to; None if nothing limits them.

        `line` has the sessions from the root of the tree down to this one.
        """
        sql = "SELECT period FROM quotas WHERE tenant_id = :tenant"
        quota = one_of(connection, sql, tenant=tenant_id)
        known = [each["account_id"] for each in _found(connection, _ACCOUNT, map(_tree, line))]
        if quota is None and not known:
            return None
        tree = _tree(line[0])
        period = ""
        if quota is not None:
            period = _quota(tenant_id, quota["period"], read_now(connection))
        return Purse(tree, period, tuple(each for each in known if each != tree))

    async def left(self, tenant_id: str, purse: Purse) -> Amount:
        """Return what may still be used of all accounts of a purse."""
        return await self._database.run(lambda c: _left(_locked(c, tenant_id, purse)))

    async def hold(self, claim: Claim, purse: Purse, key: str, call: WorstCase) -> Hold | Shortage:
        """Reserve the worst case of a call, with a shorter answer if only that fits."""

        def work(connection: Connection) -> Hold | Shortage:
            check_fence(connection, claim.session_id, claim.epoch)
            known = _row_of(connection, claim, key)
            accounts = _locked(connection, claim.tenant_id, purse)
            left = _left(accounts)
            if known is not None:
                # This run has reserved it: the commit took effect, but its confirmation was lost.
                return _hold_of(known, left)
            fit = call.fit(left)
            if isinstance(fit, str) or fit.output_tokens < call.enough:
                settle_lost(connection, purse)
                accounts = _locked(connection, claim.tenant_id, purse)
                later = call.fit(_left(accounts, ignoring_holds=True))
                # It would fit if no running call had reserved anything, so that it is worth
                # waiting for what they release of their worst case.
                if not isinstance(later, str) and later != fit:
                    return Shortage("others are under way", may_wait=True)
            if isinstance(fit, str):
                return Shortage(_describe(purse, accounts, fit), may_wait=False)
            row = _set_aside(connection, claim, purse, key, fit)
            return _hold_of(row, left)

        return await self._database.run(work)

    async def settle(self, claim: Claim, hold: Hold, charge: Amount | None) -> float:
        """Charge the cost of a call, or all that is reserved if `charge` is None; release the rest.

        Returns the used share of the limit that is closest to being exhausted.
        """

        def work(connection: Connection) -> float:
            check_fence(connection, claim.session_id, claim.epoch)
            row = _row_of(connection, claim, hold.key)
            if row is None:
                return 0.0
            accounts = _book(connection, row, charge or _amount_of(row), "settled")
            return max(map(_share, accounts), default=0.0)

        return await self._database.run(work)


def open_account(
    connection: Connection,
    account: str,
    tenant_id: str,
    usd: Decimal | None,
    tokens: int | None,
    calls: int | None,
    *,
    renew: bool,
) -> None:
    """Open an account inside a transaction; with `renew`, an existing one gets the new limits."""
    renewed = (
        "UPDATE SET usd_limit = excluded.usd_limit, token_limit = excluded.token_limit, "
        "call_limit = excluded.call_limit"
    )
    execute(
        connection,
        "INSERT INTO accounts (account_id, tenant_id, usd_limit, token_limit, call_limit) "
        "VALUES (:account, :tenant, :usd, :tokens, :calls) "
        f"ON CONFLICT (account_id) DO {renewed if renew else 'NOTHING'}",
        account=account,
        tenant=tenant_id,
        usd=_limit(usd),
        tokens=tokens,
        calls=calls,
    )


def open_tree(connection: Connection, tenant_id: str, root_id: str, terms: BudgetTerms) -> None:
    """Open the account of a tree with the limits of its plan, unless it has one."""
    limits = (terms.usd, terms.tokens, terms.steps)
    if any(each is not None for each in limits):
        open_account(connection, _tree(root_id), tenant_id, *limits, renew=False)


def settle_lost(connection: Connection, purse: Purse | None, turn_id: str | None = None) -> None:
    """Charge the reservations of calls whose runs have ended in full, inside a transaction.

    Their cost is unknown, and the vendor may have billed them. With `turn_id`, all open ones of
    this turn are charged; otherwise the lost ones of a purse.
    """
    if turn_id is not None:
        sql = "SELECT * FROM holds WHERE turn_id = :turn AND state = 'open'"
        rows = all_of(connection, sql, turn=turn_id)
    else:
        assert purse is not None
        sql = f"SELECT * FROM holds WHERE {_IS_LOST} AND (tree = :tree OR quota = :quota)"
        # Holds without a quota have an empty text there, which must not match those of other trees.
        rows = all_of(connection, sql, tree=purse.tree, quota=purse.quota or "-")
    for row in rows:
        _book(connection, row, _amount_of(row), "lost")


def _book(connection: Connection, hold: Row, charge: Amount, state: str) -> list[Row]:
    """Turn a hold into a charge, at most once. Returns the accounts that were charged."""
    charged = {"usd": _rounded_up(charge.usd), "tokens": int(charge.tokens)}
    changed = execute(
        connection,
        "UPDATE holds SET state = :state, usd_charged = :usd, tokens_charged = :tokens "
        "WHERE turn_id = :turn AND call_key = :key AND epoch = :epoch AND state = 'open'",
        turn=hold["turn_id"],
        key=hold["call_key"],
        epoch=hold["epoch"],
        state=state,
        **charged,
    )
    accounts = Purse(hold["tree"], hold["quota"], tuple(json.loads(hold["own"]))).accounts
    if not changed:
        return _found(connection, _ACCOUNT, accounts)
    return _found(
        connection,
        "UPDATE accounts SET usd_held = usd_held - :usd_held, usd_used = usd_used + :usd, "
        "token_held = token_held - :token_held, token_used = token_used + :tokens, "
        "call_held = call_held - 1, call_used = call_used + 1 WHERE account_id = :account "
        "RETURNING *",
        accounts,
        usd_held=hold["usd"],
        token_held=hold["tokens"],
        **charged,
    )


def _set_aside(connection: Connection, claim: Claim, purse: Purse, key: str, fit: Fit) -> Row:
    """Reserve what a call needs, and return the row of the hold."""
    amounts = {"usd": _rounded_up(fit.amount.usd), "tokens": int(fit.amount.tokens)}
    for account in purse.accounts:
        execute(
            connection,
            "UPDATE accounts SET usd_held = usd_held + :usd, token_held = token_held + :tokens, "
            "call_held = call_held + 1 WHERE account_id = :account",
            account=account,
            **amounts,
        )
    row = one_of(
        connection,
        "INSERT INTO holds (turn_id, call_key, epoch, tree, quota, own, usd, tokens, "
        "output_tokens, state) VALUES (:turn, :key, :epoch, :tree, :quota, :own, :usd, :tokens, "
        ":output, 'open') RETURNING *",
        turn=claim.turn_id,
        key=key,
        epoch=claim.epoch,
        tree=purse.tree,
        quota=purse.quota,
        own=json.dumps(purse.own),
        output=fit.output_tokens,
        **amounts,
    )
    assert row is not None
    return row


def _hold_of(row: Row, left: Amount) -> Hold:
    """Return a hold by its row; a limit on the number of calls does not shorten answers."""
    limits_answer = left.usd.is_finite() or left.tokens.is_finite()
    return Hold(_amount_of(row), row["output_tokens"] if limits_answer else None, row["call_key"])


def _amount_of(hold: Row) -> Amount:
    return Amount(Decimal(hold["usd"]) / NANO, Decimal(hold["tokens"]), Decimal(1))


def _row_of(connection: Connection, claim: Claim, key: str) -> Row | None:
    sql = "SELECT * FROM holds WHERE turn_id = :turn AND call_key = :key AND epoch = :epoch"
    return one_of(connection, sql, turn=claim.turn_id, key=key, epoch=claim.epoch)


def _found(connection: Connection, sql: str, accounts: Iterable[str], **more: Any) -> list[Row]:
    """Return the row that a statement finds for each account that exists."""
    found = [one_of(connection, sql, account=account, **more) for account in accounts]
    return [each for each in found if each is not None]


def _locked(connection: Connection, tenant_id: str, purse: Purse) -> list[Row]:
    """Lock the accounts of a purse, always in the same order, and return them."""
    if purse.quota:
        sql = "SELECT usd, tokens FROM quotas WHERE tenant_id = :tenant"
        limits: Any = one_of(connection, sql, tenant=tenant_id) or {}
        usd = limits.get("usd")
        tokens = limits.get("tokens")
        usd = None if usd is None else Decimal(usd) / NANO
        # Each period has an account of its own, so that a new one begins without a job that resets
        # anything; it takes over limits that were changed meanwhile.
        open_account(connection, purse.quota, tenant_id, usd, tokens, None, renew=True)
    sql = "UPDATE accounts SET usd_held = usd_held WHERE account_id = :account RETURNING *"
    return _found(connection, sql, purse.accounts)


def _left(accounts: Sequence[Row], *, ignoring_holds: bool = False) -> Amount:
    """Return what may still be used of all accounts together."""
    left = ENDLESS
    for account in accounts:
        units: list[Decimal] = []
        for unit, endless in zip(_UNITS, ENDLESS, strict=True):
            limit = account[f"{unit}_limit"]
            if limit is None:
                units.append(endless)
                continue
            # A running call counts as one call, however little it turns out to cost.
            if ignoring_holds and unit != "call":
                held = 0
            else:
                held = account[f"{unit}_held"]
            rest = Decimal(limit - account[f"{unit}_used"] - held)
            units.append(rest / NANO if unit == "usd" else rest)
        left = left.at_most(Amount(*units))
    return left


def _describe(purse: Purse, accounts: Sequence[Row], lacking: str) -> str:
    """Return how much is used of the limit that is closest to being exhausted."""
    unit = _UNITS[Amount._fields.index(lacking)]
    limited = [each for each in accounts if each[f"{unit}_limit"] is not None]
    account = min(limited, key=lambda each: each[f"{unit}_limit"] - each[f"{unit}_used"])
    used = account[f"{unit}_used"]
    most = account[f"{unit}_limit"]
    named = {purse.tree: "", purse.quota: " of this period's quota"}
    whose = named.get(account["account_id"], " of this agent's share")
    if unit == "usd":
        return f"USD {used / NANO:.4f} of {most / NANO:.4f}{whose}"
    return f"{used:,} of {most:,} {'tokens' if unit == 'token' else 'model calls'}{whose}"


def _share(account: Row) -> float:
    shares = [
        account[f"{unit}_used"] / account[f"{unit}_limit"]
        for unit in _UNITS
        if account[f"{unit}_limit"]
    ]
    return max(shares, default=0.0)


def _status(row: Row) -> dict[str, Any]:
    def amounts(what: str) -> dict[str, Any]:
        usd = row[f"usd_{what}"]
        money = None if usd is None else str(Decimal(usd) / NANO)
        return {"usd": money, "tokens": row[f"token_{what}"], "calls": row[f"call_{what}"]}

    return {"used": amounts("used"), "held": amounts("held"), "limits": amounts("limit")}


def _tree(root_id: str) -> str:
    return f"tree:{root_id}"


def _quota(tenant_id: str, period: str, now: int) -> str:
    today = datetime.fromtimestamp(now / 1000, UTC)
    if period == "day":
        return f"quota:{tenant_id}:{today:%Y-%m-%d}"
    return f"quota:{tenant_id}:{today:%Y-%m}"


def _limit(usd: Decimal | None) -> int | None:
    """Return a limit in billionths, rounded down."""
    if usd is None:
        return None
    return int(usd * NANO)


def _rounded_up(usd: Decimal) -> int:
    """Return a cost in billionths; like limits, rounded in favour of the budget."""
    return math.ceil(usd * NANO)
