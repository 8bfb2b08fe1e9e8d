"""Sessions for the rows, with the bench modules and the loop a row asks for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from amplifier_core import AmplifierSession, ModuleLoader

BENCH_LOOP = "bench-loop"
OUR_LOOP = "loop-basic"
BENCH_CONTEXT = "bench-context"
OUR_CONTEXT = "context-simple"

sys.path.insert(0, str(Path(__file__).parent / "modules"))


def mount_plan(
    loop: str, *, context: str = BENCH_CONTEXT, tool_calls: int = 1, delay: float = 0.0
) -> dict[str, Any]:
    """The plan of four modules: loop, context, provider and tool."""
    config = {"tool_calls": tool_calls, "delay": delay}
    return {
        "session": {"orchestrator": loop, "context": context},
        "providers": [{"module": "bench-provider", "config": config}],
        "tools": [{"module": "bench-tool"}],
    }


async def open_session(
    plan: dict[str, Any], *, loader: ModuleLoader | None = None
) -> AmplifierSession:
    """An initialized session; `loader` is shared with others when given.

    The loader is set on the coordinator, the one place where every kernel looks for it.
    """
    session = AmplifierSession(plan)
    if loader is not None:
        session.coordinator.loader = loader
    await session.initialize()
    return session
