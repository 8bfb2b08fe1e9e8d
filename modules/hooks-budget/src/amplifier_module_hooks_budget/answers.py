"""What is said when a budget has come to its end, so that a person can go on from there."""

from __future__ import annotations

from amplifier_module_hooks_budget.ledger import Ledger, Shortage

LAST_CALL = (
    "The budget for this work is used up. Answer now with what you have, without calling tools, "
    "and say what is still open."
)


def describe(ledger: Ledger, shortage: Shortage) -> str:
    """Return how much of which limit is used."""
    limit, account = shortage
    if limit == "seconds":
        return f"{ledger.seconds():.0f} of {ledger.config.seconds:g} seconds"
    used, most = getattr(account.used, limit), getattr(account.limit, limit)
    if limit == "usd":
        text = f"USD {used:.4f} of {most:.4f}"
    else:
        text = f"{used:,.0f} of {most:,.0f} {'tokens' if limit == 'tokens' else 'model calls'}"
    return text if account.parent is None else f"{text} of this agent's share"
