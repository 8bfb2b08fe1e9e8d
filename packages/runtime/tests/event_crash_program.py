"""Kills a worker at every place of one streaming turn in sequence, and lets another finish.

Usage: event_crash_program.py FOLDER LOOP URL...
Prints a JSON line with `url`, `session` and `killed` before each turn, so that somebody can read
along, and one with `url` and `exits` after it. As many places are tried at the same time as there
are databases.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from event_stage import StreamingStage
from runtime_stage import Trace, end_of, plan_with
from warm_forks import fork, say, share, warm_up

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.log.session_log import SessionLog
from amplifier_runtime.worker.worker import Worker, WorkerSettings
from amplifier_sandbox.platforms.signals import KILL

QUICK: dict[str, Any] = {"beat_seconds": 0.1, "dead_after_seconds": 0.4, "poll_seconds": 0.05}


class KillPoint:
    """Kills the process at the place that is reached as the `at`-th; None is nowhere."""

    def __init__(self, at: int | None, trace: Trace) -> None:
        self._at = at
        self._trace = trace
        self._count = 0

    def __call__(self, name: str) -> None:
        self._trace.note("place", name)
        if self._count == self._at:
            os.kill(os.getpid(), KILL)
        self._count += 1

    async def inside(self, name: str) -> None:
        # Time for readers to see what was shown, and for parallel siblings to get under way.
        await asyncio.sleep(0.03)
        self(name)


async def run(url: str, session_id: str, point: KillPoint, trace: Trace) -> None:
    database = Database(url, connections=4)
    parts = [SessionLog(database), StreamingStage(trace, point.inside)]
    async with Worker(WorkerSettings(url, parts=parts, boundary=point, crash_limit=9, **QUICK)):
        client = Client(database, "t")
        turn = await client.submit(session_id, "buy", idempotency_key="k")
        async with asyncio.timeout(120):
            await end_of(client, turn, trace)
        # A good end takes its time, and nothing here depends on it.
        os._exit(0)


async def create(url: str, session_id: str, loop: str) -> None:
    database = Database(url, connections=1)
    await Client(database, "t").create_session(session_id, plan_with(loop))
    database.close()


def play(url: str, session_id: str, trace: Trace, at: int | None) -> int:
    """Run a worker that is killed at the place reached as the `at`-th; returns its exit code."""
    return fork(partial(run, url, session_id, KillPoint(at, trace), trace))


def kill(folder: Path, loop: str, url: str, place: tuple[int, str]) -> None:
    number, line = place
    session_id, trace = f"s{number}", Trace(folder / f"trace-{number}")
    fork(partial(create, url, session_id, loop))
    say(url=url, session=session_id, killed=line.removeprefix("place "))
    say(url=url, exits=[play(url, session_id, trace, at) for at in (number, None)])


def main(folder: Path, loop: str, urls: list[str]) -> None:
    warm_up(loop)
    whole, url = Trace(folder / "trace-whole"), urls[0]
    fork(partial(create, url, "whole", loop))
    say(url=url, session="whole", killed=None)
    say(url=url, exits=[play(url, "whole", whole, None)])
    share(urls, list(enumerate(whole.lines("place"))), partial(kill, folder, loop))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
