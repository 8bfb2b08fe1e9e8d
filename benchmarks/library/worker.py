"""Runs in the environment of one library: many sessions at the same time, with a turn each."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

WARM_UP = 50
ANSWER = "It is 42."


async def run_all(turn: Callable[[], Awaitable[str]], sessions: int) -> None:
    """Run the sessions; each of them has to answer."""
    answers = await asyncio.gather(*(turn() for _ in range(sessions)))
    if set(answers) != {ANSWER}:
        raise SystemExit(f"wrong answers: {set(answers)}")


def kept_kib() -> int:
    """Return the memory of this process after everything free is given back."""
    gc.collect()
    # Without it, free memory that the allocator keeps would count.
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4


async def measure(turn: Callable[[], Awaitable[str]], sessions: int) -> dict[str, float]:
    """Return the CPU of a turn in milliseconds, and the memory kept of a session in KiB."""
    await run_all(turn, WARM_UP)
    before = kept_kib()
    start = time.process_time()
    await run_all(turn, sessions)
    spent = time.process_time() - start
    return {
        "cpu_ms": spent * 1000 / sessions,
        "kept_kib": (kept_kib() - before) / sessions,
    }


if __name__ == "__main__":
    library, number = sys.argv[1:]
    module = importlib.import_module(f"benchmarks.library.turns_{library}")
    print(json.dumps(asyncio.run(measure(module.turn, int(number)))))
