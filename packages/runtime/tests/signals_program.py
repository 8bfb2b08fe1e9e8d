"""A worker in a process of its own whose turns ask before they pay.

It is killed at the first boundary that begins with `place`, and held there when `place` is inside
of a call.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from runtime_stage import Stage, Trace
from signals_stage import AskUser

from amplifier_runtime.signals.watcher import SignalWatch
from amplifier_runtime.worker.worker import WorkerSettings, run_worker


def main(url: str, folder: Path, name: str, place: str = "nowhere") -> None:
    trace = Trace(folder / "trace")

    async def reached(where: str) -> None:
        trace.note(name, where)
        if where == place:
            await asyncio.Event().wait()

    def boundary(where: str) -> None:
        trace.note(name, where)
        if where.startswith(place):
            os._exit(137)

    settings = WorkerSettings(
        url,
        concurrency=32,
        beat_seconds=0.2,
        dead_after_seconds=1.0,
        poll_seconds=0.05,
        crash_limit=9,
        parts=[SignalWatch(poll_seconds=0.05), Stage(trace, reached), AskUser("pay")],
        boundary=boundary,
    )
    asyncio.run(run_worker(settings))
