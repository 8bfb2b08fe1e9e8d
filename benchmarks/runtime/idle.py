"""What sessions at rest cost: bytes in PostgreSQL, and memory and CPU of a worker that has none.

`python -m benchmarks.runtime.idle [SESSIONS] [APPROVALS]`. Some turns are really run; the rows that
they left are copied under new ids until there are enough sessions. The approvals are all real.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable

from benchmarks.runtime.fleet import ASK, PLAN, cpu_seconds, resident_mb, start, tables
from benchmarks.runtime.throughput import all_done, submit

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Connection, Database, all_of, execute, one_of
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate

REAL = 200
LOOKED_SECONDS = 20.0
# What a session at rest consists of, and which of its columns are ids that must be its own.
ROWS = {
    "sessions": ("session_id",),
    "turns": ("turn_id", "session_id"),
    "messages": ("session_id", "turn_id"),
    "logs": ("session_id",),
    "events": ("session_id", "turn_id", "key"),
}
MOST_GROWN_MB = 20.0
"""By how much the worker may grow while everything else does."""


def copy_rows(connection: Connection, table: str, ids: tuple[str, ...], copies: int) -> None:
    """Copy every row so many times, with ids that are as long as real ones."""
    sql = "SELECT column_name AS name FROM information_schema.columns WHERE table_name = :table"
    rows = all_of(connection, f"{sql} AND table_schema = 'amplifier'", table=table)
    names = [row["name"] for row in rows]
    values = [f"{name} || '-' || copy" if name in ids else name for name in names]
    execute(
        connection,
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} "
        f"FROM {table}, generate_series(1, {copies}) AS copy",
    )


async def grow(database: Database, sessions: int) -> None:
    """Bring the number of sessions at rest to `sessions`."""

    def work(connection: Connection) -> None:
        for table, ids in ROWS.items():
            copy_rows(connection, table, ids, sessions // REAL - 1)

    await database.run(work)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        execute(connection, "VACUUM ANALYZE")


async def park(client: Client, database: Database, approvals: int) -> None:
    """Have so many turns ask, and wait until no worker holds one of them."""
    for number in range(approvals):
        await client.create_session(f"asking{number}", PLAN)
        await client.submit(f"asking{number}", ASK, idempotency_key="k")
    sql = "SELECT COUNT(*) AS parked FROM turns WHERE state = 'parked' AND reason = 'approval'"

    async def parked() -> int:
        row = await database.run(lambda connection: one_of(connection, sql))
        return 0 if row is None else row["parked"]

    await _until(parked, approvals)


async def _until(count: Callable[[], Awaitable[int]], wanted: int) -> None:
    async with asyncio.timeout(900):
        while await count() < wanted:  # noqa: ASYNC110 - other processes set no events
            await asyncio.sleep(0.2)


async def idle_cpu(pid: int) -> float:
    """Return the share of a core that a worker without turns uses."""
    busy, began = cpu_seconds([pid]), time.perf_counter()
    await asyncio.sleep(LOOKED_SECONDS)
    return (cpu_seconds([pid]) - busy) / (time.perf_counter() - began)


def tell_sizes(database: Database, sessions: int) -> None:
    """Print what each table holds for each session."""
    sizes = tables(database)
    total = 0.0
    for table in ROWS:
        each = sizes[f"amplifier.{table}"]["bytes"] / sessions
        total += each
        print(f"  {table:<10}{each:8.0f} bytes a session")
    print(f"  {'together':<10}{total:8.0f} bytes a session, {total * sessions / 2**20:.0f} MiB")


def _bytes(database: Database) -> int:
    return sum(each["bytes"] for each in tables(database).values())


async def measure(url: str, sessions: int, approvals: int) -> bool:
    """Measure and print; whether the worker has stayed as it was."""
    database = Database(url)
    await migrate(database)
    client = Client(database, "t")
    worker = start(url, 16)
    try:
        await submit(client, 0, REAL)
        await all_done(database)
        small = resident_mb(worker.pid)
        print(
            f"{REAL} sessions: worker {small:.1f} MiB, {await idle_cpu(worker.pid):.1%} of a core"
        )
        await grow(database, sessions)
        share = await idle_cpu(worker.pid)
        many = resident_mb(worker.pid)
        print(f"{sessions} sessions at rest: worker {many:.1f} MiB, {share:.1%} of a core")
        tell_sizes(database, sessions)
        before = _bytes(database)
        await park(client, database, approvals)
        share = await idle_cpu(worker.pid)
        most = resident_mb(worker.pid)
        print(f"and {approvals} approvals: worker {most:.1f} MiB, {share:.1%} of a core")
        each = (_bytes(database) - before) / approvals
        print(f"  {each:.0f} bytes for each, with its session and its journal")
        return most - small <= MOST_GROWN_MB
    finally:
        worker.kill()
        worker.wait()
        database.close()


def main(sessions: int, approvals: int) -> int:
    """Measure; the exit code is the verdict."""
    if sys.platform != "linux":
        sys.exit("Only Linux has /proc, which tells the CPU of workers; on Windows, use WSL.")
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}")
    with LocalPostgres() as server:
        is_flat = asyncio.run(measure(server.url, sessions, approvals))
    print(f"worker grown by at most {MOST_GROWN_MB:g} MiB: {'ok' if is_flat else 'MISSED'}")
    return 0 if is_flat else 1


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:]]
    sys.exit(main(*(numbers + [100_000, 1_000][len(numbers) :])))
