"""Faults of the fleet: lost commits, poisonous sessions, migrations under running workers."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from command_stage import AMPLIFIER, Workers
from cutting_proxy import CuttingProxy, When, proxy_before
from runtime_stage import Stage, Trace, pause, plan_with, rows, until

import amplifier_runtime
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, Row, all_of, execute
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import BREAKING, applied, check_schema, migrate
from amplifier_runtime.database.store import Turn
from amplifier_runtime.errors import SchemaError
from amplifier_runtime.worker.liveness import Observer
from amplifier_runtime.worker.worker import Worker, WorkerSettings
from amplifier_runtime.worker_parts import all_parts

pytestmark = pytest.mark.slow

CRASHES = WorkerSettings("").crash_limit
# A statement of each transaction that a turn makes, in order.
TRANSACTIONS = {
    "submit": "INSERT INTO turns",
    "claim": "SET state = 'running'",
    "begin": "INSERT INTO dbos.workflow_status",
    "log": "INSERT INTO events",
    "journal": "INSERT INTO dbos.workflow_events",
    "finish": "INSERT INTO messages",
    "end of the step": "INSERT INTO dbos.operation_outputs",
    "beat": "beat = beat + 1",
}
WHEN: tuple[When, When] = ("committed", "never sent")


@pytest.fixture
def proxied(postgres: LocalPostgres) -> Generator[tuple[CuttingProxy, str]]:
    with proxy_before(postgres.create_database(f"test_{uuid.uuid4().hex}")) as through:
        yield through


@pytest.mark.attack("J3")
async def test_a_commit_whose_answer_is_lost_is_looked_up_and_not_guessed(
    proxied: tuple[CuttingProxy, str], tmp_path: Path
) -> None:
    """Each transaction of a turn loses its connection, before it is committed and after."""
    proxy, url = proxied
    trace, database = Trace(tmp_path / "trace"), Database(url)
    await migrate(database)
    client = Client(database, "t")
    parts = [*all_parts(database), Stage(trace)]
    async with Worker(WorkerSettings(url, beat_seconds=0.1, poll_seconds=0.05, parts=parts)):
        for number, (name, when) in enumerate(itertools.product(TRANSACTIONS, WHEN)):
            session = f"{name}-{when}".replace(" ", "_")
            await client.create_session(session, plan_with("loop-basic"))
            proxy.cut(TRANSACTIONS[name], when)
            turn = await client.submit(session, "buy", idempotency_key="k")
            async with asyncio.timeout(120):
                finished = await client.result(turn.turn_id)
            await until(lambda expected=number + 1: proxy.cuts == expected)
            assert (finished.answer, finished.crashes) == ("price 42, paid", 0), session
            assert len(await client.turns(session)) == 1, session
            assert len(await client.messages(session)) == 5, session
            done = Counter(trace.lines())
            assert done[f"effect pay {session}"] == 1, session
            assert done[f"model {session} 0"] == done[f"model {session} 2"] == 1, session
        await until(lambda: not unfinished(database))
    database.close()


def unfinished(database: Database) -> Sequence[Row]:
    """Return the turns that the engine has not seen the end of."""
    sql = "SELECT workflow_uuid FROM dbos.workflow_status WHERE status <> 'SUCCESS'"
    return database.transact(lambda connection: all_of(connection, sql))


@pytest.fixture
def workers(url: str, database: Database, tmp_path: Path) -> Generator[Workers]:
    workers = Workers(url, tmp_path)
    yield workers
    workers.end()


@pytest.mark.attack("J5")
async def test_a_session_that_kills_its_workers_is_parked_and_the_others_go_on(
    database: Database, workers: Workers
) -> None:
    if sys.platform == "win32":
        pytest.skip("on Windows no exit code says that a process was killed")
    client = Client(database, "t")
    await client.create_session("poison", workers.plan(poison=True))
    await client.create_session("healthy", workers.plan())
    poison = await client.submit("poison", "buy", idempotency_key="k")
    behind = await client.submit("poison", "again", idempotency_key="behind")
    for number in range(1, CRASHES + 1):
        worker = workers.start("--concurrency", "1")
        assert await asyncio.to_thread(worker.process.wait, 60) == -signal.SIGKILL
        if number < CRASHES:
            # The last one is left to the survivor, which takes its time.
            assert await bury_all(database) == [worker.worker_id]
    survivor = workers.start("--concurrency", "1")
    healthy = await client.submit("healthy", "buy", idempotency_key="k")
    async with asyncio.timeout(120):
        assert (await client.result(healthy.turn_id)).answer == "price 42, paid"
        while (parked := await client.turn(poison.turn_id)).state != "parked":  # noqa: ASYNC110 - a row
            await asyncio.sleep(0.05)
    assert (parked.reason, parked.crashes, parked.runs) == ("crashed", CRASHES, CRASHES)
    assert (await client.turn(behind.turn_id)).state == "waiting"
    assert survivor.process.poll() is None
    assert f"requeue {poison.turn_id}" in await workers.typed("status")


class NewerVersion:
    """A copy of the runtime that has more migrations, and runs in processes of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder / "newer"
        self._url = url
        source = Path(amplifier_runtime.__file__).parent
        shutil.copytree(source, self._folder / source.name)

    def add(self, name: str, sql: str) -> None:
        package = self._folder / amplifier_runtime.__name__
        (package / "migrations" / name).write_text(sql, encoding="utf-8")

    async def migrate(self) -> tuple[int, str]:
        """Return the exit code of `amplifier runtime migrate` and what it says."""
        done = await asyncio.to_thread(
            subprocess.run,
            [str(AMPLIFIER), "runtime", "migrate", "--database", self._url],
            env={**os.environ, "PYTHONPATH": str(self._folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def newer(tmp_path: Path, url: str) -> NewerVersion:
    return NewerVersion(tmp_path, url)


async def finished(client: Client, turn: Turn) -> str | None:
    async with asyncio.timeout(120):
        return (await client.result(turn.turn_id)).answer


@pytest.mark.attack("J6")
async def test_a_compatible_migration_passes_under_a_running_worker(
    database: Database, workers: Workers, newer: NewerVersion
) -> None:
    client = Client(database, "t")
    newer.add("0901_more.sql", "ALTER TABLE turns ADD COLUMN more TEXT;\n")
    await client.create_session("s", workers.plan(hold_at="model 2"))
    turn = await client.submit("s", "buy", idempotency_key="k")
    workers.start()
    await until(lambda: workers.trace.lines("reached s model 2"))
    assert await newer.migrate() == (0, "applied 0901_more.sql\n")
    workers.release()
    assert await finished(client, turn) == "price 42, paid"
    later = await client.submit("s", "buy", idempotency_key="later")
    assert await finished(client, later) == "price 42, paid"
    # One of the old version may still be started, to replace one that died during the deploy.
    workers.start()


@pytest.mark.attack("J6")
async def test_a_breaking_migration_is_refused_whole_until_the_old_workers_are_gone(
    database: Database, workers: Workers, newer: NewerVersion
) -> None:
    client = Client(database, "t")
    newer.add("0901_more.sql", "ALTER TABLE turns ADD COLUMN more TEXT;\n")
    newer.add("0902_less.sql", f"{BREAKING}\nALTER TABLE turns RENAME COLUMN prompt TO said;\n")
    worker = workers.start()
    before = await applied(database)
    code, said = await newer.migrate()
    assert code == 1, said
    assert worker.worker_id in said
    assert await applied(database) == before
    await client.create_session("s", workers.plan())
    turn = await client.submit("s", "buy", idempotency_key="k")
    assert await finished(client, turn) == "price 42, paid"
    await workers.typed("drain")
    assert (await newer.migrate())[0] == 0
    with pytest.raises(SchemaError, match="cannot live with"):
        await check_schema(database)


@pytest.mark.attack("J6")
async def test_a_worker_that_was_paused_over_a_breaking_migration_leaves_when_it_wakes(
    database: Database, workers: Workers, newer: NewerVersion
) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows does not stop a process for a while")
    newer.add("0901_less.sql", f"{BREAKING}\nALTER TABLE turns RENAME COLUMN prompt TO said;\n")
    worker = workers.start().process
    await pause(worker.pid, database)
    assert await bury_all(database) != []
    assert (await newer.migrate())[0] == 0
    worker.send_signal(signal.SIGCONT)
    assert await left_as_too_old(worker)


@pytest.mark.attack("J6")
# Nobody can see who waits for SQLite.
@pytest.mark.parametrize("new_url", ["postgresql"], indirect=True)
async def test_a_worker_that_starts_in_the_middle_of_a_breaking_migration_does_not_run(
    database: Database, workers: Workers
) -> None:
    with database.engine.begin() as migrating:
        execute(migrating, "LOCK TABLE workers IN EXCLUSIVE MODE")
        execute(migrating, "INSERT INTO migrations VALUES (901, '0901_less.sql', '', 1, 0)")
        worker = workers.begin()
        waiting = (
            "SELECT 1 FROM pg_locks WHERE relation = 'amplifier.workers'::regclass AND NOT granted"
        )
        await until(lambda: database.transact(lambda c: all_of(c, waiting)))
    assert await left_as_too_old(worker)
    assert await rows(database, "SELECT state FROM workers") == [{"state": "gone"}]


async def bury_all(database: Database) -> list[str]:
    """Do at once what the other workers do after a while to one that is silent."""
    return await Observer(database, dead_after_seconds=0).reap_dead_workers()


async def left_as_too_old(worker: subprocess.Popen[str]) -> bool:
    said, _ = await asyncio.to_thread(worker.communicate, timeout=30)
    return worker.returncode == 1 and "Start a newer worker" in said


@pytest.mark.attack("J6")
async def test_a_migration_that_fails_leaves_nothing_of_itself_or_of_those_before_it(
    database: Database, workers: Workers, newer: NewerVersion
) -> None:
    newer.add("0901_more.sql", "ALTER TABLE turns ADD COLUMN more TEXT;\n")
    newer.add("0902_wrong.sql", "CREATE TABLE half (one TEXT);\nALTER TABLE nowhere ADD x TEXT;\n")
    before = await applied(database)
    code, _ = await newer.migrate()
    assert code == 1
    assert await applied(database) == before
    newer.add("0902_wrong.sql", "CREATE TABLE half (one TEXT);\n")
    assert (await newer.migrate())[0] == 0


@pytest.mark.attack("J6")
async def test_migrations_started_at_once_are_applied_once(
    database: Database, newer: NewerVersion
) -> None:
    newer.add("0901_more.sql", "ALTER TABLE turns ADD COLUMN more TEXT;\n")
    results = await asyncio.gather(*(newer.migrate() for _ in range(3)))
    assert [code for code, _ in results] == [0, 0, 0]
    assert sum("applied 0901_more.sql" in said for _, said in results) == 1
