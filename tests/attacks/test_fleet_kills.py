"""Attacks on the fleet: workers killed twice, a database that is away, too few connections."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.database.store import Turn
from amplifier_runtime.log.reader import LogReader
from amplifier_runtime.signals.signals import Signals
from attacks.silent_proxy import SilentProxy

HERE = Path(__file__).parent
ECHO_PLAN = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock", "config": {"mode": "echo"}}],
}
ASKING_PLAN = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock"}],
    "tools": [{"module": "tool-todo"}],
    "hooks": [{"module": "hooks-approval", "config": {"rules": [{"tool": "*", "action": "ask"}]}}],
}


class Processes:
    """Workers in processes of their own, which are ended with the test."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a Python program."""
        process = subprocess.Popen(
            [sys.executable, "-u", *command],
            env={**os.environ, "PYTHONPATH": str(HERE / "fleet_modules")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._processes.append(process)
        return process

    def start_worker(self, url: str, *options: str) -> subprocess.Popen[str]:
        """Start a worker as a user does, and wait until it says that it is there."""
        command = ("-m", "amplifier_runtime.commands.worker", "--database", url, *options)
        process = self.start(*command)
        assert process.stdout is not None
        said = process.stdout.readline()
        assert " runs up to " in said, said + process.stdout.read()
        return process

    def end(self) -> None:
        """Kill those that still run."""
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture
def processes() -> Generator[Processes]:
    started = Processes()
    yield started
    started.end()


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - other processes set no events
            await asyncio.sleep(0.02)


async def said_at_its_end(process: subprocess.Popen[str]) -> str:
    """Return what a process that has been told to leave says; nothing if it does not end."""
    try:
        said, _ = await asyncio.to_thread(process.communicate, timeout=60)
    except subprocess.TimeoutExpired:
        return ""
    return f"{said}exit status {process.returncode}"


async def end_of(client: Client, turn: Turn) -> Turn:
    """Wait for a turn."""
    async with asyncio.timeout(120):
        return await client.result(turn.turn_id)


@pytest.mark.slow
@pytest.mark.attack("review M16")
async def test_a_question_is_in_the_log_before_its_answer_though_two_workers_were_killed(
    tmp_path: Path, processes: Processes
) -> None:
    url = f"sqlite:///{tmp_path / 'runtime.sqlite'}"
    database = Database(url)
    await migrate(database)
    client, signals = Client(database, "t"), Signals(database, "t")
    await client.create_session("s", ASKING_PLAN)
    turn = await client.submit("s", "Note a todo.", idempotency_key="k")
    program = (str(HERE / "killed_worker.py"), str(tmp_path), url)
    assert await asyncio.to_thread(processes.start(*program).wait, 60) == 137
    [question] = await signals.approvals("s")
    await signals.answer(question.approval_id, "Allow once", by="ann")
    assert await asyncio.to_thread(processes.start(*program).wait, 60) == 137
    processes.start(*program)
    assert (await end_of(client, turn)).state == "done"
    entries = await LogReader(database).read("t", "s", after="")
    database.close()
    said = [each.name for each in entries if each.data.get("approval_id") == question.approval_id]
    assert said == ["approval.asked", "approval"]


@pytest.mark.fleet
@pytest.mark.attack("review M11")
async def test_a_worker_ends_on_sigterm_while_the_database_refuses_connections(
    tmp_path: Path, processes: Processes
) -> None:
    with LocalPostgres() as server:
        url = server.create_database("fleet")
        database = Database(url)
        await migrate(database)
        client = Client(database, "t")
        turn = await submit_waiting(client, tmp_path)
        worker = processes.start_worker(url, "--drain-seconds", "1")
        await until((tmp_path / "reached").exists)
        server.stop("fast")
        worker.terminate()
        said = await said_at_its_end(worker)
        assert "exit status 75" in said
        assert "ended without the database" in said
        server.start()
        await taken_over(client, turn, tmp_path, processes, url)
        database.close()


@pytest.mark.fleet
@pytest.mark.attack("review M11")
async def test_a_worker_ends_on_sigterm_while_the_database_does_not_answer(
    tmp_path: Path, processes: Processes
) -> None:
    with LocalPostgres() as server, SilentProxy(server.port) as proxy:
        url = server.create_database("fleet")
        database = Database(url)
        await migrate(database)
        client = Client(database, "t")
        turn = await submit_waiting(client, tmp_path)
        through_proxy = url.replace(f":{server.port}/", f":{proxy.port}/")
        worker = processes.start_worker(through_proxy, "--drain-seconds", "1")
        await until((tmp_path / "reached").exists)
        proxy.fall_silent()
        worker.terminate()
        said = await said_at_its_end(worker)
        assert "exit status 75" in said
        assert "ended without the database" in said
        await taken_over(client, turn, tmp_path, processes, url)
        database.close()


async def submit_waiting(client: Client, folder: Path) -> Turn:
    """Submit a turn whose model answers only when it is released."""
    model = {"module": "provider-waiting", "config": {"folder": str(folder)}}
    session = {"orchestrator": "loop-basic", "context": "context-simple"}
    await client.create_session("s", {"session": session, "providers": [model]})
    return await client.submit("s", "wait", idempotency_key="k")


async def taken_over(
    client: Client, turn: Turn, folder: Path, processes: Processes, url: str
) -> None:
    """Check that another worker ends the turn."""
    (folder / "release").touch()
    processes.start_worker(url)
    ended = await end_of(client, turn)
    assert (ended.state, ended.answer, ended.runs) == ("done", "done", 2)


@pytest.mark.fleet
@pytest.mark.attack("review M12")
@pytest.mark.parametrize(("connections", "workers"), [(14, 3), (8, 4)])
async def test_too_few_connections_make_turns_slower_and_never_stuck(
    processes: Processes, connections: int, workers: int
) -> None:
    with LocalPostgres(settings=f"max_connections = {connections}") as server:
        url = server.create_database("fleet")
        database = Database(url, connections=1, patience_seconds=120)
        await migrate(database)
        client = Client(database, "t")
        command = ("-m", "amplifier_runtime.commands.worker", "--database", url)
        # Not all of them have a connection at the beginning, so nobody waits until they are there.
        started = [processes.start(*command) for _ in range(workers)]
        turns: list[Turn] = []
        for number in range(16):
            await client.create_session(f"s{number}", ECHO_PLAN)
            turns.append(await client.submit(f"s{number}", "hello", idempotency_key="k"))
        states = {(await end_of(client, turn)).state for turn in turns}
        for worker in started:
            worker.terminate()
        said = [await said_at_its_end(worker) for worker in started]
        database.close()
    assert states == {"done"}
    # One that still waits for its first connection does not know yet how to leave.
    assert all(each.endswith(("exit status 0", "exit status -15")) for each in said), said
    assert any("no free connection" in each for each in said), said
