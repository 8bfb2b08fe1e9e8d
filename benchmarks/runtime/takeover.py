"""How long a turn waits when its worker is killed: from SIGKILL to the next model call elsewhere.

`python -m benchmarks.runtime.takeover [KILLS]` runs workers with the default settings on SQLite and
PostgreSQL, kills them at random moments and fails when the slowest take-over misses the bar.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.runtime.side import PLAN, Model, mount

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun
from amplifier_runtime.worker.worker import WorkerSettings, run_worker

BAR = 10.0
"""Seconds that the slowest take-over may take."""
TOGETHER = 5


class Waiting(Model):
    """Notes when it is asked, and answers only to the survivor."""

    def __init__(self, notes: Path, session_id: str, answers: bool) -> None:
        self._notes = notes
        self._session_id = session_id
        self._answers = answers

    async def complete(self, request: Any, **kwargs: Any) -> Any:
        """Answer, or wait to be killed."""
        (self._notes / f"{self._session_id}-{os.getpid()}").touch()
        if not self._answers:
            await asyncio.get_running_loop().create_future()
        return await super().complete(request, **kwargs)


class Modules(TurnPart):
    """Mounts the model that waits."""

    def __init__(self, notes: Path, answers: bool) -> None:
        self._notes = notes
        self._answers = answers

    async def attach(self, run: TurnRun) -> None:
        """Mount."""
        await mount(run.session)
        model = Waiting(self._notes, run.claim.session_id, self._answers)
        run.session.coordinator.interpose("providers", lambda name, inner: model, name="waiting")


def work(url: str, notes: Path, role: str) -> None:
    """Be a worker: a victim takes one turn, the survivor takes them all."""
    is_survivor = role == "survivor"
    parts = [Modules(notes, is_survivor)]
    settings = WorkerSettings(url, concurrency=16 if is_survivor else 1, parts=parts)
    asyncio.run(run_worker(settings))


async def measure(url: str, notes: Path) -> list[float]:
    """Kill some workers one after the other and return the seconds that each turn waited."""
    database = Database(url)
    await migrate(database)
    client = Client(database, "t")
    for number in range(TOGETHER):
        await client.create_session(f"s{number}", PLAN)
        await client.submit(f"s{number}", "Do it.", idempotency_key="k")
    workers = [start(url, notes, "victim") for _ in range(TOGETHER)]
    await until(lambda: len(list(notes.iterdir())) == TOGETHER)
    survivor = start(url, notes, "survivor")
    await asyncio.sleep(8)
    killed: dict[str, float] = {}
    for worker in workers:
        await asyncio.sleep(random.uniform(0.0, 2.0))
        [session] = noted(notes, worker.pid)
        worker.kill()
        killed[session] = time.time()
        worker.wait()
    await until(lambda: len(noted(notes, survivor.pid)) == TOGETHER)
    survivor.kill()
    survivor.wait()
    database.close()
    begun = noted(notes, survivor.pid)
    return [begun[session] - at for session, at in killed.items()]


def noted(notes: Path, pid: int) -> dict[str, float]:
    """Return the sessions whose model was asked by a process, and when."""
    return {each.name.split("-")[0]: each.stat().st_mtime for each in notes.glob(f"*-{pid}")}


def start(url: str, notes: Path, role: str) -> subprocess.Popen[bytes]:
    """Start a worker in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.runtime.takeover", role, url, str(notes)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


async def until(condition: Any) -> None:
    """Wait for what other processes do."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - other processes set no events
            await asyncio.sleep(0.02)


def main(kills: int) -> int:
    """Measure and print; the exit code is the verdict."""
    worst = 0.0
    with LocalPostgres() as server, tempfile.TemporaryDirectory() as folder:
        for name in ("SQLite", "PostgreSQL"):
            waits: list[float] = []
            while len(waits) < kills:
                place = Path(folder) / f"{name}{len(waits)}"
                (place / "notes").mkdir(parents=True)
                sqlite = f"sqlite:///{place / 'runtime.sqlite'}"
                url = sqlite if name == "SQLite" else server.create_database(f"k{len(waits)}")
                waits += asyncio.run(measure(url, place / "notes"))
            worst = max(worst, *waits)
            half = statistics.median(waits)
            print(f"{name:<11} {len(waits)} kills: p50 {half:.1f} s, slowest {max(waits):.1f} s")
    verdict = "ok" if worst <= BAR else "MISSED"
    print(f"slowest take-over {worst:.1f} s, bar {BAR:g} s: {verdict}")
    return 0 if verdict == "ok" else 1


if __name__ == "__main__":
    if sys.argv[1:2] in (["victim"], ["survivor"]):
        work(sys.argv[2], Path(sys.argv[3]), sys.argv[1])
    else:
        sys.exit(main(int((*sys.argv[1:], "20")[0])))
