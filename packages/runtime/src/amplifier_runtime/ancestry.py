"""What a child turn has from the sessions above it, though these are at rest or elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from amplifier_core.session import AmplifierSession
from amplifier_foundation.guards import with_required_guards
from amplifier_runtime.database import Row
from amplifier_runtime.plan_keys import PlanKeys

__all__ = ["dismiss", "stand_in_for"]


async def stand_in_for(
    ancestors: Iterable[Row], keys: PlanKeys | None = None
) -> list[AmplifierSession]:
    """Return a session for each ancestor, the root first, with its hooks and its state.

    Each is forked from the one above it, so that guards and interposers come down by the law of
    the kernel. They run no turn: tools and providers are left out.
    """
    stand_ins: list[AmplifierSession] = []
    for row in ancestors:
        recorded = with_required_guards(json.loads(row["plan"]))
        plan: dict[str, Any] = {**recorded, "tools": [], "providers": []}
        if keys is not None:
            plan = await keys.resolve(plan)
        session = (
            stand_ins[-1].fork(plan, session_id=row["session_name"])
            if stand_ins
            else AmplifierSession(
                plan, session_id=row["session_name"], parent_id=row["parent_id"], is_resumed=True
            )
        )
        stand_ins.append(session)
        session.coordinator.session_state.update(json.loads(row["state"]))
        try:
            await session.initialize()
        except BaseException:
            await dismiss(stand_ins)
            raise
    return stand_ins


async def dismiss(stand_ins: list[AmplifierSession]) -> None:
    """End what `stand_in_for` made."""
    for session in reversed(stand_ins):
        await session.cleanup()
