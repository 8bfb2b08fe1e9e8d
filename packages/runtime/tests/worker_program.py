"""A worker in a process of its own, which can be held at a named place until a file appears.

Usage: worker_program.py URL FOLDER NAME [HOLD_AT]. It waits at HOLD_AT for FOLDER/release.
The one called `silent` beats once and never again.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from runtime_stage import Stage, Trace

from amplifier_runtime.worker import WorkerSettings, run_worker


def main(url: str, folder: Path, name: str, hold_at: str | None = None) -> None:
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


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
