"""A flood of notifications on the channel that the readers of logs listen on."""

from __future__ import annotations

import asyncio
import mmap
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.log.reader import CHANNEL, LogReader
from amplifier_runtime.log.session_log import SessionLog
from amplifier_runtime.worker.worker import Worker, WorkerSettings

ECHO_PLAN = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock", "config": {"mode": "echo"}}],
}
# 20,000 notifications of some 7,000 bytes: the session's name, nothing, control characters.
FLOOD = """
import sys, psycopg
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    for number in range(200):
        for begin in ("s" + chr(10), "", chr(27) + "[2J" + chr(10) * 3400, chr(1)):
            connection.execute(
                "SELECT pg_notify(%s, %s || i || repeat('x', 4400)) FROM generate_series(1, 25) i",
                (sys.argv[2], (begin + str(number)).ljust(3500)),
            )
        connection.execute("SELECT pg_notify(%s, '')", (sys.argv[2],))
"""


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * mmap.PAGESIZE


@pytest.mark.fleet
@pytest.mark.attack("review untried")
async def test_a_flood_of_notifications_stops_neither_workers_nor_readers() -> None:
    if sys.platform != "linux":
        pytest.skip("it reads /proc")
    with LocalPostgres() as server:
        url = server.create_database("fleet")
        database = Database(url)
        await migrate(database)
        client = Client(database, "t")
        await client.create_session("s", ECHO_PLAN)
        address = sa.make_url(url).set(drivername="postgresql")
        plain = address.render_as_string(hide_password=False)
        seen: list[int] = []

        async def follow() -> None:
            async for entry in LogReader(database).tail("t", "s"):
                seen.append(entry.seq)

        following = asyncio.create_task(follow())
        log = SessionLog(database)
        async with Worker(WorkerSettings(url, poll_seconds=0.1, parts=[log])):
            first = await client.submit("s", "one", idempotency_key="1")
            async with asyncio.timeout(120):
                await client.result(first.turn_id)
                before = _resident_bytes()
                flood = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", FLOOD, plain, CHANNEL
                )
                for number in range(5):
                    turn = await client.submit("s", "more", idempotency_key=f"more {number}")
                    assert (await client.result(turn.turn_id)).state == "done"
                assert await flood.wait() == 0
        await log.aclose()
        entries = await LogReader(database).read("t", "s")
        async with asyncio.timeout(120):
            while len(set(seen)) < len(entries):  # noqa: ASYNC110 - the reader sets no event
                await asyncio.sleep(0.02)
        after = _resident_bytes()
        following.cancel()
        await asyncio.wait([following])
        database.close()

    # Keeping what is notified would take three times as much.
    assert after - before < 20_000_000
    assert not following.done() or following.cancelled()
