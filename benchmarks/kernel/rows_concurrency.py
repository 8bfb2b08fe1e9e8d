"""What a session and a turn are in the concurrent rows."""

from __future__ import annotations

from benchmarks.kernel.bare import PROMPT
from benchmarks.kernel.concurrency import MODEL_SECONDS
from benchmarks.kernel.sessions import mount_plan, open_session

from amplifier_core import AmplifierSession, ModuleLoader

LOADER = ModuleLoader()
"""Shared by all sessions, as one process with many sessions would."""


async def create(loop: str) -> AmplifierSession:
    """A session whose model takes its time."""
    plan = mount_plan(loop, tool_calls=0, delay=MODEL_SECONDS)
    return await open_session(plan, loader=LOADER)


async def turn(session: AmplifierSession) -> None:
    """One prompt, one model call, one answer."""
    await session.execute(PROMPT)
