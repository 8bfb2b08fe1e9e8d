"""Attacks on the fleet: workers killed twice, a database that is away, too few connections."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from amplifier_runtime.client import Client
from amplifier_runtime.database import Database
from amplifier_runtime.event_reading import LogReader
from amplifier_runtime.migrating import migrate
from amplifier_runtime.signals import Signals
from amplifier_runtime.store import Turn

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
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
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._processes.append(process)
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


async def end_of(client: Client, turn: Turn) -> Turn:
    """Wait for a turn."""
    async with asyncio.timeout(60):
        return await client.result(turn.turn_id)


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
    assert said == ["turn:asked", "turn:answered"]
