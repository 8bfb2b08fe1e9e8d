"""How soon a reader elsewhere sees what a turn says: from the hook to the reader, in milliseconds.

`python -m benchmarks.runtime.log [SESSIONS]` runs that many turns at once in a worker process, each
of which shows a piece of its answer about every 100 ms and logs an event about every second, and
reads along from this process, on SQLite and PostgreSQL. They are submitted one after another, and
their answers differ in length as answers do; it fails when the 99th percentile misses the bar. The
last lines are for turns in step, which all begin and all end in one moment: what a worker streams
waits for the beginnings and the ends.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.runtime.side import PLAN, Model, mount

from amplifier_core import events
from amplifier_kit.calls.block_stream import BLOCK_DELTA, BlockStream
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.log.reader import LogReader
from amplifier_runtime.log.session_log import SessionLog
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun
from amplifier_runtime.worker.worker import WorkerSettings, run_worker

if sys.platform == "win32":
    raise SystemExit("Windows does not tell the load of the machine; run the benchmark in WSL.")
else:
    import resource

BAR = 100.0
"""Milliseconds until 99 of 100 are seen."""
PIECES, PAUSE = 100, 0.1
BETWEEN_TURNS = 0.05
WARM = "warm"
"""A session whose turn is not measured: a worker takes a second to start."""
IN_STEP = "in step"


def lengths(sessions: int) -> dict[str, int]:
    """Return how many pieces the answer in each session has; on average, as many as in step."""
    return {f"s{n}": PIECES // 2 + n * PIECES // max(1, sessions - 1) for n in range(sessions)}


class Talking(Model):
    """Shows a piece of its answer ten times a second; each says when."""

    def __init__(self, hooks: Any, pieces: int, *, is_in_step: bool) -> None:
        self._hooks = hooks
        self._pieces = pieces
        self._spread = 0.0 if is_in_step else PAUSE / 2

    async def complete(self, request: Any, **kwargs: Any) -> Any:
        """Talk, then answer."""
        stream = BlockStream(self._hooks)
        await stream.start(0, "text")
        for number in range(self._pieces):
            await asyncio.sleep(PAUSE + random.uniform(-self._spread, self._spread))
            await stream.delta(0, f"{time.time():.6f} and some more text ")
            if number % 10 == 0:
                await self._hooks.emit(events.PROVIDER_RETRY, {"said_at": time.time()})
        await stream.end(0)
        return await super().complete(request, **kwargs)


class Modules(TurnPart):
    """Mounts the model that talks."""

    def __init__(self, sessions: int) -> None:
        self._lengths = lengths(sessions)

    async def attach(self, run: TurnRun) -> None:
        """Mount."""
        await mount(run.session)
        coordinator = run.session.coordinator
        is_in_step = run.claim.prompt == IN_STEP
        session_id = run.claim.session_id
        pieces = 1 if session_id == WARM else PIECES if is_in_step else self._lengths[session_id]
        model = Talking(coordinator.hooks, pieces, is_in_step=is_in_step)
        coordinator.interpose("providers", lambda name, inner: model, name="talking", priority=1)


class Delays:
    """How long it took until each was seen."""

    def __init__(self) -> None:
        self.live: list[float] = []
        self.logged: list[float] = []

    async def follow(self, reader: LogReader, session_id: str) -> None:
        """Read one turn."""
        async for entry in reader.tail("t", session_id):
            if entry.name == BLOCK_DELTA:
                self.live.append(
                    1000 * (time.time() - float(entry.data["data"]["text"].split()[0]))
                )
            elif entry.name == events.PROVIDER_RETRY:
                self.logged.append(1000 * (time.time() - entry.data["data"]["said_at"]))
            elif entry.name == "turn.ended":
                return


def work(url: str, sessions: int) -> None:
    """Be the worker."""
    parts = [SessionLog(Database(url, connections=2)), Modules(sessions)]
    asyncio.run(run_worker(WorkerSettings(url, concurrency=sessions, parts=parts)))


def start(url: str, sessions: int) -> subprocess.Popen[bytes]:
    """Start a worker in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.runtime.log", "worker", url, str(sessions)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


async def measure(url: str, sessions: int, prompt: str) -> Delays:
    """Let the turns run, and read all of them."""
    database, delays = Database(url), Delays()
    await migrate(database)
    client, reader = Client(database, "t"), LogReader(database)
    for session in (WARM, *lengths(sessions)):
        await client.create_session(session, PLAN)
    worker = start(url, sessions)
    await client.submit(WARM, prompt, idempotency_key="k")
    await Delays().follow(reader, WARM)
    async with asyncio.timeout(120), asyncio.TaskGroup() as readers:
        for session in lengths(sessions):
            readers.create_task(delays.follow(reader, session))
        for session in lengths(sessions):
            await client.submit(session, prompt, idempotency_key="k")
            await asyncio.sleep(0 if prompt == IN_STEP else BETWEEN_TURNS)
    worker.kill()
    worker.wait()
    database.close()
    return delays


def report(name: str, kind: str, delays: list[float], expected: int) -> float:
    """Print one line and return the 99th percentile."""
    ordered = sorted(delays)
    half, most = ordered[len(ordered) // 2], ordered[int(0.99 * len(ordered))]
    counted = f"{len(ordered)} of {expected} {kind}"
    print(f"{name:<20} {counted:<19} p50 {half:6.1f}  p99 {most:6.1f}  slowest {ordered[-1]:6.1f}")
    return most


def main(sessions: int) -> int:
    """Measure and print; the exit code is the verdict."""
    print(f"{sessions} sessions, load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, ms")
    worst = 0.0
    with LocalPostgres() as server, tempfile.TemporaryDirectory() as folder:
        urls = {
            "SQLite": f"sqlite:///{Path(folder) / 'runtime.sqlite'}",
            "PostgreSQL": server.create_database("apart"),
        }
        shown = list(lengths(sessions).values())
        logged = sum(math.ceil(each / 10) for each in shown)
        for name, url in urls.items():
            delays = asyncio.run(measure(url, sessions, "Talk."))
            worst = max(worst, report(name, "live", delays.live, sum(shown)))
            worst = max(worst, report(name, "logged", delays.logged, logged))
        delays = asyncio.run(measure(server.create_database("step"), sessions, IN_STEP))
        report("PostgreSQL, in step", "live", delays.live, sessions * PIECES)
        report("PostgreSQL, in step", "logged", delays.logged, sessions * PIECES // 10)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    print(f"reader CPU {1000 * (spent.ru_utime + spent.ru_stime) / (3 * sessions * PIECES):.2f} ms")
    verdict = "ok" if worst <= BAR else "MISSED"
    print(f"99 of 100 seen within {worst:.0f} ms, bar {BAR:g} ms: {verdict}")
    return 0 if verdict == "ok" else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        work(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(main(int((*sys.argv[1:], "50")[0])))
