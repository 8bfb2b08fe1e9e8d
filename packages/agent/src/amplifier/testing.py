"""Testing an agent: models that answer as told, and replays of stored sessions."""

from __future__ import annotations

import asyncio
from typing import Any

from typing_extensions import TypeVar

from amplifier.agent import Agent, with_budget_of
from amplifier.models import (
    Handler,
    ModelMessage,
    ModelRequest,
    OfferedTool,
    Reply,
    Said,
    ScriptedModel,
    ToolUse,
)
from amplifier.references import DEPS
from amplifier.stored import Store, read_session, session_folder
from amplifier_journal.readings.state import state_of
from amplifier_journal.replay.comparison import Difference
from amplifier_journal.replay.replayer import Replay
from amplifier_journal.replay.replayer import replay as replay_log

__all__ = [
    "Difference",
    "Handler",
    "ModelMessage",
    "ModelRequest",
    "OfferedTool",
    "Replay",
    "Reply",
    "Said",
    "ScriptedModel",
    "ToolUse",
    "replay",
    "replay_sync",
]

DepsT = TypeVar("DepsT", default=None)


async def replay(
    store: Store,
    session_id: str,
    *,
    agent: Agent[DepsT, Any] | None = None,
    deps: DepsT | None = None,
) -> Replay:
    """Run a stored session again, without its model and without calling its tools, and compare.

    Models, tools and users answer from the recording. Without an `agent` the session runs by the
    plan that it was recorded with. With one it runs by the plan of that agent, whose instructions,
    tools, guards or modules may have changed, and it stops where it first does something else: what
    would have followed is unknown. `deps` are for the guards.
    """
    log = read_session(session_folder(store), session_id)
    plan = None
    if agent is not None:
        recorded: Any = state_of(log.records()).plan
        plan = with_budget_of(recorded or {}, agent.plan)
    return await replay_log(log, plan=plan, capabilities={DEPS: deps})


def replay_sync(
    store: Store,
    session_id: str,
    *,
    agent: Agent[DepsT, Any] | None = None,
    deps: DepsT | None = None,
) -> Replay:
    """Do what `replay` does, from code that is not asynchronous."""
    return asyncio.run(replay(store, session_id, agent=agent, deps=deps))
