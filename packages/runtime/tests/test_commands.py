"""The commands of an operator, typed as a person would type them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command_stage import AMPLIFIER
from runtime_stage import until

from amplifier_foundation.errors import FoundationError
from amplifier_runtime.client import Client
from amplifier_runtime.cluster import EXAMPLE
from amplifier_runtime.commands.runtime import runtime
from amplifier_runtime.commands.sessions import DurableSessions
from amplifier_runtime.database.database import Database, execute, one_of
from amplifier_runtime.errors import NoWorkerError
from amplifier_runtime.worker.liveness import Liveness

StartWorker = Callable[..., subprocess.Popen[str]]


async def typed(*words: str, url: str) -> str:
    """Return what a command prints; raises what it ends with."""
    return await asyncio.to_thread(_typed, words, url)


def _typed(words: tuple[str, ...], url: str) -> str:
    result = CliRunner().invoke(runtime, [*words, "--database", url], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.output


@pytest.fixture
def start_worker(url: str, tmp_path: Path) -> Generator[StartWorker]:
    workers: list[subprocess.Popen[str]] = []

    def begin(*options: str) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            [str(AMPLIFIER), "worker", "--database", url, *options],
            env={**os.environ, "AMPLIFIER_HOME": str(tmp_path / "home"), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        workers.append(worker)
        return worker

    yield begin
    for worker in workers:
        worker.kill()
        worker.wait()
        assert worker.stdout is not None
        worker.stdout.close()


def said(worker: subprocess.Popen[str]) -> str:
    """Return the next line that a worker prints."""
    assert worker.stdout is not None
    return worker.stdout.readline()


async def test_migrate_names_first_and_then_applies_and_then_has_nothing_to_do(
    empty_url: str,
) -> None:
    assert "would apply 0001_turns.sql" in await typed("migrate", "--dry-run", url=empty_url)
    assert "lacks 0001_turns.sql" in await typed("status", url=empty_url)
    assert "\napplied 0002" in await typed("migrate", url=empty_url)
    assert (await typed("migrate", url=empty_url)).endswith("is up to date.\n")


@pytest.mark.parametrize("command", [("drain",), ("requeue", "turn-1")])
async def test_a_command_on_a_database_without_tables_says_what_to_type(
    empty_url: str, command: tuple[str, ...]
) -> None:
    with pytest.raises(FoundationError, match="amplifier runtime migrate"):
        await typed(*command, url=empty_url)


async def test_a_session_in_a_database_without_tables_says_what_to_type(empty_url: str) -> None:
    sessions = DurableSessions(empty_url, "default")

    with pytest.raises(FoundationError, match="amplifier runtime migrate"):
        await asyncio.to_thread(sessions.read, "s1")
    with pytest.raises(FoundationError, match="amplifier runtime migrate"):
        await asyncio.to_thread(sessions.fork, "s1")


@pytest.mark.slow
async def test_a_database_that_does_not_answer_is_told_without_its_password() -> None:
    address = "postgresql://me:hidden@127.0.0.1:1/none"
    with pytest.raises(FoundationError) as failure:
        await typed("status", url=address)
    assert "127.0.0.1" in str(failure.value)
    assert "hidden" not in str(failure.value)


async def test_status_says_whether_a_session_is_durable(
    url: str,
    database: Database,
    echo_plan: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("AMPLIFIER_HOME", str(home))
    await Client(database, "t").create_session("kept", echo_plan)
    in_files = await asyncio.to_thread(
        subprocess.run,
        [str(AMPLIFIER), "run", "--provider", "mock", "hello"],
        env={**os.environ, "AMPLIFIER_HOME": str(home)},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert in_files.returncode == 0, in_files.stderr
    assert "durable  yes, but no worker runs" in await typed("status", "kept", url=url)
    assert "durable  no: it is kept in files" in await typed("status", "last", url=url)
    with pytest.raises(FoundationError, match="There is no session `other`"):
        await typed("status", "other", url=url)
    whole = await typed("status", url=url)
    assert "workers   none" in whole
    assert "sessions  1, durable: all" in whole


async def test_a_durable_turn_without_a_worker_is_an_error_with_the_command_that_starts_one(
    database: Database, echo_plan: dict[str, Any]
) -> None:
    client = Client(database, "t")
    await client.create_session("s", echo_plan)
    with pytest.raises(NoWorkerError, match="`amplifier worker`"):
        await client.submit("s", "hello", idempotency_key="k", needs_worker=True)
    assert await client.turns("s") == []


async def test_a_crashed_turn_is_requeued_and_no_other(
    url: str, database: Database, echo_plan: dict[str, Any]
) -> None:
    client = Client(database, "t")
    await client.create_session("s", echo_plan)
    turn = await client.submit("s", "hello", idempotency_key="k")

    async def park(reason: str) -> None:
        sql = "UPDATE turns SET state = 'parked', reason = :reason, crashes = 3"
        await database.run(lambda connection: execute(connection, sql, reason=reason))

    await park("approval")
    with pytest.raises(FoundationError, match="parked, waiting for approval"):
        await typed("requeue", turn.turn_id, url=url)
    await park("crashed")
    assert f"requeue {turn.turn_id}" in await typed("status", url=url)
    assert "is ready again" in await typed("requeue", turn.turn_id, url=url)
    ready = await client.turn(turn.turn_id)
    assert (ready.state, ready.reason, ready.crashes) == ("ready", None, 0)
    with pytest.raises(FoundationError, match="No turn `none`"):
        await typed("requeue", "none", url=url)


async def test_a_turn_of_another_version_waits_unless_a_living_worker_accepts_it(
    url: str, database: Database, echo_plan: dict[str, Any]
) -> None:
    client = Client(database, "t")
    await client.create_session("s", echo_plan)
    await client.submit("s", "hello", idempotency_key="k")
    sql = "UPDATE turns SET code_version = '1'"
    await database.run(lambda connection: execute(connection, sql))
    await Liveness(database, "other", code_version="3", concurrency=1).register()
    assert "--accepts 1" in await typed("status", url=url)
    accepting = Liveness(database, "w", code_version="2", concurrency=1, accepts=["0", "1"])
    await accepting.register()
    assert "--accepts" not in await typed("status", url=url)
    await accepting.leave("gone")
    assert "--accepts 1" in await typed("status", url=url)


@pytest.mark.slow
async def test_a_worker_runs_turns_and_leaves_when_it_is_told_from_anywhere(
    url: str, database: Database, echo_plan: dict[str, Any], start_worker: StartWorker
) -> None:
    worker = start_worker("--concurrency", "3", "--code-version", "7")
    assert "runs up to 3 turns" in said(worker)
    client = Client(database, "t")
    await client.create_session("s", echo_plan)
    turn = await client.submit("s", "hello", idempotency_key="k", needs_worker=True)
    assert (await client.result(turn.turn_id)).answer == "[mock] You said: hello"
    assert "code 7, 0 of 3 turns" in await typed("status", url=url)
    assert "durable  yes\n" in await typed("status", "s", url=url)
    assert "has left" in await typed("drain", url=url)
    assert worker.wait(timeout=120) == 0
    assert await typed("drain", url=url) == "No worker is running.\n"
    with pytest.raises(FoundationError, match="No running worker `w`"):
        await typed("drain", "w", url=url)


@pytest.mark.slow
async def test_a_killed_worker_never_leaves_and_drain_finds_out(
    url: str, database: Database, start_worker: StartWorker
) -> None:
    worker = start_worker()
    assert "runs up to" in said(worker)
    worker.kill()
    worker.wait()
    with pytest.raises(FoundationError, match="1 of 1 workers have not left"):
        await typed("drain", "--wait", "1", url=url)
    assert "was dead; its turns are for others now" in await typed("drain", url=url)
    assert await typed("drain", url=url) == "No worker is running.\n"


@pytest.mark.slow
async def test_a_worker_without_tables_says_which_command_makes_them(tmp_path: Path) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [str(AMPLIFIER), "worker"],
        env={**os.environ, "AMPLIFIER_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "amplifier runtime migrate" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
async def test_a_cluster_runs_what_it_says_and_stops_in_good_order() -> None:
    command = [sys.executable, "-m", "amplifier_runtime.cluster", "2"]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - starts only
    lines: list[str] = []
    try:
        while not (lines and lines[-1].startswith("Ctrl-C")):
            lines.append(said(program))
            assert lines[-1], "the cluster ended too early"
        url = next(line for line in lines if line.startswith("export")).partition("=")[2].strip()
        assert sum("runs up to" in line for line in lines) == 2
        assert EXAMPLE in "".join(lines)
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", EXAMPLE],
            env={**os.environ, "AMPLIFIER_DATABASE_URL": url},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "[mock] You said: Hello\n", done.stderr
        database = Database(url)
        sql = "SELECT address FROM workers LIMIT 1"
        row = await database.run(lambda connection: one_of(connection, sql))
        database.close()
        assert row is not None
        worker = int(row["address"].rpartition(":")[2])
        program.send_signal(signal.SIGINT)
        assert program.wait(timeout=60) == 0
        await until(lambda: not _runs(worker))
    finally:
        program.kill()
        program.wait()
        assert program.stdout is not None
        program.stdout.close()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
