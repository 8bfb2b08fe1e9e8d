"""A client or a worker whose clock is wrong changes nothing: the database's clock decides."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Connection, Database, all_of, execute, one_of
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.turns.claims import Claims
from amplifier_runtime.worker.liveness import Liveness
from attacks.skewed_client import PLAN, TENANT

pytestmark = [pytest.mark.fleet, pytest.mark.attack("review M13")]

_PROGRAM = Path(__file__).parent / "skewed_client.py"
_SERVER_NOW = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
_MINUTES = ("+10m", "-10m")


@pytest.fixture(scope="module")
def server() -> Generator[LocalPostgres]:
    with LocalPostgres(settings="fsync = off") as server:
        yield server


@pytest.fixture
def database(server: LocalPostgres, request: pytest.FixtureRequest) -> Generator[Database]:
    """Return a database with tables, on a server whose clock is right."""
    name = f"clock_{abs(hash(request.node.name))}"
    database = Database(server.create_database(name), connections=2)
    asyncio.run(migrate(database))
    yield database
    database.close()


def skewed(database: Database, clock: str, action: str) -> Any:
    """Do something on a machine whose clock is off by so much."""
    faketime = shutil.which("faketime")
    if faketime is None:
        pytest.skip("faketime is not installed")
    done = subprocess.run(
        [faketime, "-f", clock, sys.executable, str(_PROGRAM), database.url, action],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def server_now(connection: Connection) -> int:
    row = one_of(connection, f"SELECT {_SERVER_NOW} AS now")
    assert row is not None
    return row["now"]


async def submit(database: Database, session: str) -> str:
    client = Client(database, TENANT)
    await client.create_session(session, PLAN)
    return (await client.submit(session, "x", idempotency_key="k")).turn_id


async def start_worker(database: Database) -> Claims:
    await Liveness(database, "worker", code_version="1", concurrency=4).register()
    return Claims(database, "worker", ["1"])


@pytest.mark.parametrize("clock", _MINUTES)
async def test_turns_run_in_the_order_of_their_submission(database: Database, clock: str) -> None:
    turns = [await submit(database, "first")]
    turns.append(skewed(database, clock, "submit"))
    turns.append(await submit(database, "last"))
    claims = await start_worker(database)
    assert [claim.turn_id for claim in await claims.take(4)] == turns


@pytest.mark.parametrize("clock", _MINUTES)
async def test_every_time_that_is_stored_is_one_of_the_server(
    database: Database, clock: str
) -> None:
    before = await database.run(server_now)
    skewed(database, clock, "write_everything")
    after = await database.run(server_now)

    def times(connection: Connection) -> dict[str, int]:
        columns = all_of(
            connection,
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'amplifier' AND table_name <> 'migrations' "
            "AND column_name LIKE '%\\_at'",
        )
        found: dict[str, int] = {}
        for table, column in [tuple(each.values()) for each in columns]:
            values = all_of(connection, f"SELECT {column} AS at FROM {table}")
            rows = [row["at"] for row in values if row["at"] is not None]
            found |= {f"{table}.{column} {number}": at for number, at in enumerate(rows)}
        return found

    found = await database.run(times)
    names = {name.partition(" ")[0] for name in found}
    assert names >= {
        "sessions.created_at",
        "steers.said_at",
        "turns.ready_at",
        "turns.finished_at",
        "workers.beat_at",
        "rate_buckets.filled_at",
    }
    # A few milliseconds for rounding.
    wrong = {name: at for name, at in found.items() if not before - 5 <= at <= after + 5}
    assert wrong == {}


@pytest.mark.parametrize("clock", _MINUTES)
async def test_a_worker_that_beats_is_seen_by_all(database: Database, clock: str) -> None:
    assert skewed(database, clock, "register")
    assert await Client(database, TENANT).has_worker()
    await database.run(lambda connection: execute(connection, "DELETE FROM workers"))
    await start_worker(database)
    assert skewed(database, clock, "has_worker")


async def test_a_sweeper_far_ahead_removes_nothing_that_is_young(database: Database) -> None:
    await submit(database, "first")

    def write(connection: Connection) -> None:
        now = server_now(connection)
        execute(
            connection,
            "INSERT INTO logs (session_id, next_seq, row_count, byte_count, oldest_at) "
            "SELECT session_id, 2, 1, 2, :now FROM sessions",
            now=now,
        )
        execute(
            connection,
            "INSERT INTO events (session_id, seq, turn_id, key, name, data, size, created_at) "
            "SELECT session_id, 1, 'turn', 'key', 'name', '{}', 2, :now FROM sessions",
            now=now,
        )

    await database.run(write)
    await start_worker(database)
    sql = "UPDATE workers SET state = 'gone'"
    await database.run(lambda connection: execute(connection, sql))
    assert skewed(database, "+40d", "sweep") == [0, []]


@pytest.mark.parametrize("clock", _MINUTES)
async def test_an_answer_counts_until_its_time_is_up_on_the_server(
    database: Database, clock: str
) -> None:
    turn = await submit(database, "first")

    def ask(connection: Connection) -> None:
        execute(
            connection,
            "INSERT INTO approvals (approval_id, tenant_id, session_id, turn_id, key, prompt, "
            "options, asked_at, expires_at) SELECT 'question', tenant_id, session_id, turn_id, "
            "'k', '\"Pay?\"', '[\"Allow\", \"Deny\"]', :now, :expires FROM turns "
            "WHERE turn_id = :turn",
            turn=turn,
            now=server_now(connection),
            expires=server_now(connection) + (300_000 if clock == "+10m" else -300_000),
        )

    await database.run(ask)
    if clock == "+10m":
        assert skewed(database, clock, "answer") == "answered"
        return
    with pytest.raises(AssertionError, match="AlreadyDecidedError.*expired"):
        skewed(database, clock, "answer")
