"""What a fleet does and writes: turns a second with one and two workers, rows and bytes a turn.

`python -m benchmarks.runtime.throughput [TURNS]`, on PostgreSQL with its usual settings (fsync on).
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import time
from typing import NamedTuple

from benchmarks.runtime.fleet import (
    PLAN,
    connections,
    cpu_seconds,
    resident_mb,
    server_cpu_seconds,
    start,
    tables,
    written,
)

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, one_of
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.database.store import Store

WARM = 50
COLUMNS = ("inserted", "updated", "in_place", "deleted", "bytes")
_OPEN = "SELECT 1 FROM turns WHERE state NOT IN ('done', 'failed') LIMIT 1"
_FAILED = "SELECT 1 FROM turns WHERE state <> 'done' LIMIT 1"


async def submit(client: Client, first: int, count: int) -> None:
    """Put one turn into each of so many new sessions."""
    for number in range(first, first + count):
        await client.create_session(f"s{number}", PLAN)
        await client.submit(f"s{number}", "Do it.", idempotency_key="k")


async def all_done(database: Database) -> None:
    """Wait for every turn, looking seldom: who looks often is measured, too."""
    async with asyncio.timeout(600):
        while await database.run(lambda c: one_of(c, _OPEN)) is not None:  # noqa: ASYNC110 - a row
            await asyncio.sleep(0.1)
    assert await database.run(lambda c: one_of(c, _FAILED)) is None


class Load(NamedTuple):
    """How many turns on how many workers; `seconds` is how long a model call takes."""

    workers: int
    turns: int
    concurrency: int = 16
    seconds: float = 0.0


async def measure(url: str, load: Load, *, is_told: bool) -> None:
    """Run the turns, all submitted before, and print what they took."""
    database = Database(url, connections=2)
    await migrate(database)
    client, store = Client(database, "t"), Store(database)
    fleet = [start(url, load.concurrency, load.seconds) for _ in range(load.workers)]
    pids = [each.pid for each in fleet]
    try:
        await submit(client, 0, WARM * load.workers)
        await all_done(database)
        await store.create_tenant("t", max_running=0)
        await submit(client, WARM * load.workers, load.turns)
        before = (tables(database), written(database))
        busy, served, began = cpu_seconds(pids), server_cpu_seconds(database), time.perf_counter()
        await store.create_tenant("t", max_running=None)
        await all_done(database)
        seconds = time.perf_counter() - began
        busy, served = cpu_seconds(pids) - busy, server_cpu_seconds(database) - served
        print(
            f"{load.workers} worker(s), {load.concurrency} at a time, models {load.seconds:g} s: "
            f"{load.turns / seconds:.1f} turns/s\n"
            f"  CPU a turn: workers {1000 * busy / load.turns:.1f} ms, "
            f"PostgreSQL {1000 * served / load.turns:.1f} ms\n"
            f"  a worker: {max(map(resident_mb, pids)):.0f} MiB, "
            f"{connections(database) / load.workers:.0f} connections"
        )
        if is_told:
            await asyncio.sleep(2)
            tell(before, (tables(database), written(database)), load.turns)
    finally:
        for worker in fleet:
            worker.kill()
            worker.wait()
        database.close()


def tell(
    before: tuple[dict[str, dict[str, int]], tuple[int, int]],
    after: tuple[dict[str, dict[str, int]], tuple[int, int]],
    turns: int,
) -> None:
    """Print what each turn has written."""
    wal, commits = (now - then for now, then in zip(after[1], before[1], strict=True))
    print(f"  a turn: {commits / turns:.1f} transactions, {wal / turns / 1024:.1f} KiB of WAL")
    print(f"  {'table':<28}" + "".join(f"{name:>10}" for name in COLUMNS))
    for name, now in sorted(after[0].items()):
        change = {key: (now[key] - before[0][name][key]) / turns for key in COLUMNS}
        if any(round(each, 1) for each in change.values()):
            print(f"  {name:<28}" + "".join(f"{change[key]:10.1f}" for key in COLUMNS))


def main(turns: int) -> None:
    """Measure and print."""
    if sys.platform != "linux":
        sys.exit("Only Linux has /proc, which tells the CPU of workers; on Windows, use WSL.")
    busy = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {busy:.1f}")
    print(f"{turns} turns of two model calls and two unsafe tools, with all parts of a worker")
    loads = (Load(1, turns), Load(2, turns), Load(1, turns, concurrency=250, seconds=5.0))
    with LocalPostgres() as server:
        for number, load in enumerate(loads):
            url = server.create_database(f"load{number}")
            asyncio.run(measure(url, load, is_told=number == 0))


if __name__ == "__main__":
    main(int((*sys.argv[1:], "1000")[0]))
