"""A soak: workers that run turns for a long time, and whether they grow: `python -m chaos.soak`.

What a worker has at the end is compared with what it had at the beginning: the median of the last
third of the samples with that of the first third.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate
from chaos.report import row

_PLAN: dict[str, Any] = {
    "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
    "providers": [{"module": "provider-mock"}],
    "tools": [{"module": "tool-todo"}],
    "hooks": [
        {"module": "hooks-redaction"},
        {"module": "hooks-approval", "config": {"rules": [{"tool": "*", "action": "allow"}]}},
    ],
}
_TURNS_OF_A_SESSION = 5
_LEAST_SAMPLES = 6
_COLUMNS = ("minutes", "turns", "worker", "what", "first third", "last third", "flat")


@dataclass(frozen=True)
class Sample:
    """What one worker has at one moment."""

    memory_kib: int
    descriptors: int
    threads: int


# By how much the last third may be above the first: a share, and what is noise anyway.
_MAY_GROW = {"memory_kib": (0.10, 4_096), "descriptors": (0.0, 4), "threads": (0.0, 2)}


def sample(pid: int) -> Sample:
    """Look at a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    figures = dict(line.split(":", 1) for line in status.splitlines())
    return Sample(
        memory_kib=int(figures["VmRSS"].split()[0]),
        descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        threads=int(figures["Threads"]),
    )


def thirds(samples: Sequence[Sample], what: str) -> tuple[float, float]:
    """Return the medians of the first and of the last third."""
    values = [getattr(each, what) for each in samples]
    third = len(values) // 3
    return statistics.median(values[:third]), statistics.median(values[-third:])


def is_flat(samples: Sequence[Sample], what: str) -> bool:
    """Whether a worker has not more at the end than at the beginning."""
    if len(samples) < _LEAST_SAMPLES:
        raise ValueError(f"{len(samples)} samples are too few to tell; run for longer.")
    first, last = thirds(samples, what)
    share, noise = _MAY_GROW[what]
    return last <= first * (1 + share) + noise


def rows(minutes: float, turns: int, workers: Sequence[Sequence[Sample]]) -> Iterator[list[Any]]:
    """Yield what is to be said of each worker."""
    for number, samples in enumerate(workers, start=1):
        for what in _MAY_GROW:
            first, last = thirds(samples, what)
            flat = "yes" if is_flat(samples, what) else "NO"
            yield [f"{minutes:g}", turns, number, what, f"{first:g}", f"{last:g}", flat]


async def feed(client: Client, number: int, until: float) -> int:
    """Submit turn after turn, in a new session now and then; returns how many."""
    done = 0
    while time.monotonic() < until:
        session_id = f"soak-{number}-{done // _TURNS_OF_A_SESSION}"
        if done % _TURNS_OF_A_SESSION == 0:
            await client.create_session(session_id, _PLAN)
        turn = await client.submit(session_id, f"Note todo {done}.", idempotency_key=str(done))
        ended = await client.result(turn.turn_id)
        if ended.state != "done":
            raise RuntimeError(f"turn {turn.turn_id} is {ended.state}: {ended.error}")
        done += 1
    return done


async def watch(
    processes: Sequence[subprocess.Popen[bytes]], until: float, every_seconds: float
) -> list[list[Sample]]:
    """Look at the workers until it is over."""
    seen: list[list[Sample]] = [[] for _ in processes]
    while time.monotonic() < until:
        await asyncio.sleep(every_seconds)
        for process, samples in zip(processes, seen, strict=True):
            samples.append(sample(process.pid))
    return seen


async def make_tables(url: str) -> None:
    """Make what workers need."""
    database = Database(url)
    await migrate(database)
    database.close()


async def soak(
    url: str, processes: Sequence[subprocess.Popen[bytes]], minutes: float, width: int
) -> list[list[Any]]:
    """Have workers run turns for so many minutes; returns what is to be said of them."""
    database = Database(url)
    client = Client(database, "soak")
    until = time.monotonic() + minutes * 60
    every_seconds = min(15.0, minutes * 60 / 30)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch(processes, until, every_seconds))
        feeding = [group.create_task(feed(client, number, until)) for number in range(width)]
    database.close()
    turns = sum(task.result() for task in feeding)
    return list(rows(minutes, turns, watching.result()))


@contextmanager
def workers(url: str, count: int, log: Path) -> Generator[list[subprocess.Popen[bytes]]]:
    """Run workers as users start them."""
    command = [sys.executable, "-m", "amplifier_runtime.commands.worker", "--database", url]
    with log.open("wb") as said:
        processes = [subprocess.Popen(command, stdout=said, stderr=said) for _ in range(count)]
        try:
            yield processes
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(60)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--width", type=int, default=6, help="sessions at the same time")
    return parser.parse_args()


def main() -> int:
    """Soak, print a table, and return 1 if a worker has grown."""
    options = arguments()
    with tempfile.TemporaryDirectory() as folder, LocalPostgres() as server:
        url = server.create_database("soak")
        asyncio.run(make_tables(url))
        with workers(url, options.workers, Path(folder) / "workers.log") as processes:
            found = asyncio.run(soak(url, processes, options.minutes, options.width))
    lines = [row(list(_COLUMNS)), f"|{'---|' * len(_COLUMNS)}", *map(row, found)]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(any(each[-1] == "NO" for each in found))


if __name__ == "__main__":
    sys.exit(main())
