"""What whoever keeps a budget says of a call: its event, its facts and a message for the user."""

from __future__ import annotations

from typing import Any, NamedTuple

from amplifier_kit.calls.call_costs import Amount
from amplifier_kit.notices import show

EXHAUSTED = "budget:exhausted"
WARNING = "budget:warning"
DOUBTED = "budget:usage_doubted"
OVERRUN = "budget:overrun"
UNPRICED = "budget:price_unknown"


class News(NamedTuple):
    """Something to announce to hooks and to the user."""

    event: str
    facts: dict[str, Any]
    line: str


def news_of_charge(
    provider: str, held: Amount, charged: Amount | None, *, limits_dollars: bool = True
) -> News | None:
    """Return what is strange about a charge; a charge of None is a report that cannot be true.

    Dollars that nobody limits have no worst case.
    """
    facts: dict[str, Any] = {"provider": provider, "held": _record(held)}
    if charged is None:
        line = f"`{provider}` reports no usage that can be true: charged the worst case."
        return News(DOUBTED, facts, line)
    if (limits_dollars and charged.usd > held.usd) or charged.tokens > held.tokens:
        line = f"A call of `{provider}` cost more than its worst case."
        return News(OVERRUN, {**facts, "charged": _record(charged)}, line)
    return None


def news_of_unpriced(provider: str, model: str, *, is_refused: bool) -> News:
    """Return what is said of a model without a price where dollars are limited."""
    way = "it is not called" if is_refused else "its calls count as free"
    line = (
        f"No price is known for {provider}/{model}, so {way}; it can be set under `pricing` in the "
        "settings, or `prices` of hooks-budget."
    )
    return News(UNPRICED, {"provider": provider, "model": model, "refused": is_refused}, line)


async def announce(coordinator: Any, news: News, *, source: str) -> None:
    """Emit the event and show the message, in the name of `source`."""
    await coordinator.hooks.emit(news.event, news.facts)
    show(coordinator, news.line, source=source)


def _record(amount: Amount) -> dict[str, str]:
    """Return what a call cost; that it was one is known."""
    return {"usd": str(amount.usd), "tokens": str(amount.tokens)}
