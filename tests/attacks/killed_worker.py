"""A worker that kills itself twice around a question: when it is asked, and when it is answered.

Usage: killed_worker.py FOLDER URL
The first process ends after the question's row is written and before the log is; the second after
the answer is in the journal, and from before that on its log is not written any more. The third
runs as it should.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from amplifier_runtime.database.database import Connection, Database
from amplifier_runtime.worker.worker import WorkerSettings, run_worker
from amplifier_runtime.worker_parts import all_parts

T = TypeVar("T")
KILLED = 137


class LogDatabase(Database):
    """The database of the log, which does nothing any more once it is shut."""

    is_shut = False

    async def run(self, work: Callable[[Connection], T]) -> T:
        if self.is_shut:
            await asyncio.Event().wait()
        return await super().run(work)


def die_once(mark: Path) -> None:
    """End this process without a word, unless one has ended here before."""
    if not mark.exists():
        mark.touch()
        os._exit(KILLED)


def main(folder: Path, url: str) -> None:
    """Run until SIGTERM, or until this process kills itself."""

    log = LogDatabase(url, connections=4)

    def boundary(name: str) -> None:
        if name == "after question":
            die_once(folder / "asking")
        if name.startswith("before approval:"):
            log.is_shut = not (folder / "answered").exists()
        if name.startswith("after approval:"):
            die_once(folder / "answered")

    settings = WorkerSettings(
        url,
        parts=all_parts(log),
        boundary=boundary,
        beat_seconds=0.1,
        dead_after_seconds=0.5,
        poll_seconds=0.05,
    )
    asyncio.run(run_worker(settings))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
