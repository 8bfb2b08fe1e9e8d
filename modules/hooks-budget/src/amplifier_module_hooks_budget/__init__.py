"""hooks-budget: one budget for a whole tree of agents, which their calls cannot exceed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.calls.model_calls import CALL_CANCELLED
from amplifier_kit.calls.paid_provider import BUDGET, BudgetTerms, is_composite
from amplifier_kit.calls.prices import price_table
from amplifier_kit.configuration import read_config
from amplifier_module_hooks_budget.config import BudgetConfig
from amplifier_module_hooks_budget.ledger import TreeLedger, limit_of
from amplifier_module_hooks_budget.provider import EVENTS, NAME, BudgetedProvider, SessionBudget

__amplifier_module_type__ = "hook"

# Next to the providers: a call that another wrapper answers never reaches them, and is free.
_INNERMOST = 10_000
_GUARD_SECONDS = 10.0
SHARED = "budget.shared"
"""The capability of a session that spends from a budget which other sessions spend from too."""


class SharedBudget(Protocol):
    """What is shared; `ledger` is made by the first session, `state` is kept by the app."""

    lock: threading.Lock
    ledger: Any
    state: dict[str, Any]


class Interposer:
    """Puts a session's providers under its budget; children inherit it."""

    def __init__(self, budget: SessionBudget) -> None:
        self.budget = budget

    def __call__(self, name: str, module: Any) -> Any:
        # A composite provider calls others that are charged themselves.
        composites = self.budget.ledger.config.composite_providers
        if name in composites or is_composite(module) or isinstance(module, BudgetedProvider):
            return module
        return BudgetedProvider(name, module, self.budget)


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], None]:
    """Put every provider of this session, and of all forked from it, under one budget."""
    settings = read_config(BudgetConfig, config, NAME)
    budget = _enter(coordinator, settings)
    prices = price_table(coordinator)
    prices.take_budget(settings.prices)
    if budget.account is not None:
        budget.account.prices = prices
    terms: BudgetTerms = settings
    coordinator.register_capability(BUDGET, terms)
    coordinator.register_capability("budget.ledger", budget.ledger)
    coordinator.register_capability("budget.lease", budget.lease)
    coordinator.register_capability("budget.status", budget.status)
    coordinator.register_contributor("observability.events", NAME, EVENTS.copy)
    hooks = coordinator.hooks
    undo = [
        coordinator.interpose(
            "providers", Interposer(budget), name=NAME, priority=_INNERMOST, inherit=True
        ),
        # Registered as a guard, so that children without this module inherit it.
        hooks.register(
            events.PROVIDER_RETRY,
            budget.pay_retry,
            name=NAME,
            timeout=_GUARD_SECONDS,
            on_error="deny",
        ),
        hooks.register(
            CALL_CANCELLED,
            budget.note_cancelled,
            name=NAME,
            timeout=_GUARD_SECONDS,
            on_error="deny",
        ),
    ]

    def cleanup() -> None:
        while undo:
            undo.pop()()
        if is_shared(coordinator):
            budget.ledger.leave(coordinator.session_id)

    return cleanup


def _enter(coordinator: ModuleCoordinator, config: BudgetConfig) -> SessionBudget:
    """Open a ledger, or an account in the one of the tree that this session belongs to."""
    agent = coordinator.session_id
    if is_shared(coordinator):
        ledger = _shared_ledger(coordinator.get_capability(SHARED), config)
        return SessionBudget(coordinator, ledger, ledger.join(agent))
    above = [each.wrap for each in coordinator.interposers if isinstance(each.wrap, Interposer)]
    nearest = above[-1].budget if above else None
    ledger: TreeLedger | None = coordinator.get_capability("budget.ledger")
    ledger = ledger or (nearest and nearest.ledger)
    if ledger is None:
        ledger = TreeLedger(agent, config, coordinator.session_state.setdefault(NAME, {}))
        return SessionBudget(coordinator, ledger, ledger.root)
    parent = ledger.accounts.get(coordinator.parent_id or "")
    if parent is None and nearest is not None:
        parent = nearest.account
    if parent is None:
        refusal = "its parent has none"
    else:
        refusal = ledger.lease(parent, agent)
    account = ledger.accounts.get(agent)
    # A child's own configuration can only narrow the share that its parent gave it.
    if account is not None and account is not ledger.root:
        account.config = config
        account.limit = account.limit.at_most(limit_of(config.usd, config.tokens, config.steps))
    return SessionBudget(coordinator, ledger, account, refusal)


def is_shared(coordinator: ModuleCoordinator) -> bool:
    """Whether a session spends from a shared budget; children have accounts below its own."""
    return coordinator.parent_id is None and coordinator.get_capability(SHARED) is not None


def _shared_ledger(shared: SharedBudget, config: BudgetConfig) -> TreeLedger:
    with shared.lock:
        if shared.ledger is None:
            shared.ledger = TreeLedger(SHARED, config, shared.state)
            # Accounts of sessions that a process before this one did not close.
            for agent in [*shared.ledger.accounts][1:]:
                shared.ledger.leave(agent)
        return shared.ledger
