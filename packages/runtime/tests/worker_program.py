"""A worker in a process of its own, which can be held at a named place until a file appears.

It waits at `hold_at` for the file `release`. The one called `silent` beats once and never again.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from runtime_stage import Stage, Trace

from amplifier_runtime.worker.worker import WorkerSettings, run_worker


def main(url: str, folder: Path, name: str, hold_at: str | None = None) -> None:
    logging.basicConfig(level=logging.INFO)
    trace = Trace(folder / "trace")

    async def reached(place: str) -> None:
        trace.note(name, place)
        while place == hold_at and not (folder / "release").exists():  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.02)
        trace.note(name, "past", place)

    def boundary(place: str) -> None:
        trace.note(name, place)

    settings = WorkerSettings(
        url,
        beat_seconds=3600 if name == "silent" else 0.1,
        dead_after_seconds=3600 if name == "silent" else 0.5,
        poll_seconds=0.05,
        drain_seconds=5.0,
        parts=[Stage(trace, reached)],
        boundary=boundary,
    )
    asyncio.run(run_worker(settings))
    trace.note(name, "left")
