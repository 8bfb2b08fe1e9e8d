"""Many sessions at once: wall time over the ideal, and memory for each."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.kernel.measure import Figure

MODEL_SECONDS = 0.5
"""Every session's model call waits this long; it is also the ideal for all of them together."""


async def measure(
    sessions: int,
    create: Callable[[], Awaitable[Any]],
    turn: Callable[[Any], Awaitable[Any]],
) -> dict[str, Figure]:
    """Open `sessions` sessions, then run one turn of each at the same time."""
    await turn(await create())
    gc.collect()
    before_kb = _status_kb("VmRSS")
    start = time.process_time()
    opened = [await create() for _ in range(sessions)]
    created = time.process_time()
    wall = time.perf_counter()
    await asyncio.gather(*(turn(session) for session in opened))
    wall = time.perf_counter() - wall
    turned = time.process_time()
    peak_kb = max(_status_kb("VmHWM"), _status_kb("VmRSS"))
    detail = {
        "create_cpu_us": (created - start) / sessions * 1e6,
        "turn_cpu_us": (turned - created) / sessions * 1e6,
    }
    ratio = wall / MODEL_SECONDS
    memory = (peak_kb - before_kb) / sessions
    return {
        f"concurrent-{sessions}": Figure(ratio, ratio, detail),
        "memory": Figure(memory, memory),
    }


def _status_kb(key: str) -> int:
    """Read one field of this process's status; Linux only."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    raise KeyError(key)
