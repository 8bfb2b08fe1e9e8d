"""Forking a session at one of its records, and comparing two sessions."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from amplifier_foundation.reading.plan_changes import plan_changes
from amplifier_foundation.reading.state import state_of
from amplifier_foundation.replay.comparison import Difference, compare

if TYPE_CHECKING:
    from amplifier_foundation.store import SessionStore

__all__ = ["diff", "fork"]


def fork(
    store: SessionStore, session_id: str, *, at: int | None = None, new_id: str | None = None
) -> str:
    """Make a session that has another's records up to number `at`, and return its id.

    It goes on like any other: `open_live(..., resume=True)` puts right what the cut left open.
    """
    forked = new_id or str(uuid.uuid4())
    writer = store.copy(session_id, forked, upto=at)
    try:
        writer.append("fork", {"from": session_id, "at": at})
        state = state_of(store.read(forked).records())
        is_known = state.cost_usd is not None and not state.unpriced_calls
        cost = str(state.cost_usd) if is_known else None
        writer.update(turns=state.turns, cost_usd=cost, status="completed")
    finally:
        writer.close()
    return forked


def diff(a: Any, b: Any) -> list[Difference]:
    """Return how session `b` differs from `a`: plan, messages, tools, requests, events, answers."""
    before = list(a.records())
    after = list(b.records())
    changes = plan_changes(state_of(before).plan, state_of(after).plan)
    plan = [Difference("plan", 0, 0, each, "") for each in changes]
    return [*plan, *compare(before, after)]
