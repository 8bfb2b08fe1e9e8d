"""Kills a worker at every place of one streaming turn in sequence, and lets another finish.

Usage: event_crash_program.py URL FOLDER LOOP. Prints a JSON line with `session` and `killed` before
each turn, so that somebody can read along, and one with `finished` after it. The parent process
never starts the engine, so that it can fork a fresh worker from warm code each time.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from event_stage import StreamingStage
from runtime_stage import Trace, plan_with

from amplifier_runtime.client import Client
from amplifier_runtime.database import Database
from amplifier_runtime.events import EventLog
from amplifier_runtime.worker import Worker, WorkerSettings

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
            os.kill(os.getpid(), signal.SIGKILL)
        self._count += 1

    async def inside(self, name: str) -> None:
        # Time for readers to see what was shown, and for parallel siblings to get under way.
        await asyncio.sleep(0.03)
        self(name)


async def run(url: str, session_id: str, point: KillPoint, trace: Trace) -> None:
    database = Database(url, connections=4)
    parts = [EventLog(database), StreamingStage(trace, point.inside)]
    async with Worker(WorkerSettings(url, parts=parts, boundary=point, crash_limit=9, **QUICK)):
        client = Client(database, "t")
        turn = await client.submit(session_id, "buy", idempotency_key="k")
        async with asyncio.timeout(30):
            await client.result(turn.turn_id)
        # A good end takes its time, and nothing here depends on it.
        os._exit(0)


def fork(work: Any) -> int:
    """Run something in a process of its own; returns its exit code."""
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(work())
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def create(url: str, session_id: str, loop: str) -> None:
    database = Database(url, connections=1)
    await Client(database, "t").create_session(session_id, plan_with(loop))
    database.close()


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)  # noqa: T201 - a program talks to its caller


def main(url: str, folder: Path, loop: str) -> None:
    whole = Trace(folder / "trace-whole")
    fork(lambda: create(url, "whole", loop))
    say(session="whole", killed=None)
    fork(lambda: run(url, "whole", KillPoint(None, whole), whole))
    for number, line in enumerate(whole.lines("place")):
        session_id, trace = f"s{number}", Trace(folder / f"trace-{number}")
        fork(lambda session_id=session_id: create(url, session_id, loop))
        say(session=session_id, killed=line.removeprefix("place "))
        first = fork(
            lambda number=number, session_id=session_id, trace=trace: run(
                url, session_id, KillPoint(number, trace), trace
            )
        )
        last = fork(
            lambda session_id=session_id, trace=trace: run(
                url, session_id, KillPoint(None, trace), trace
            )
        )
        say(finished=session_id, exits=[first, last])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
