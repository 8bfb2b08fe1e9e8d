"""The commands that show, explain, replay and fork a session, on a durable one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.worker.worker import Worker, WorkerSettings
from amplifier_runtime.worker_parts import all_parts

PLAN = {
    "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
    "providers": [{"module": "provider-mock"}],
    "tools": [{"module": "tool-todo"}],
}


async def _run_turns(url: str) -> None:
    database = Database(url)
    await migrate(database)
    client = Client(database, "acme")
    await client.create_session("s1", PLAN)
    async with Worker(WorkerSettings(url, parts=all_parts(database))), asyncio.timeout(120):
        for number, prompt in enumerate(("Note a todo.", "Note another todo.")):
            turn = await client.submit("s1", prompt, idempotency_key=str(number))
            await client.result(turn.turn_id)
    database.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    if request.param == "sqlite":
        address = f"sqlite:///{tmp_path_factory.mktemp('durable') / 'runtime.sqlite'}"
        asyncio.run(_run_turns(address))
        yield address
        return
    with LocalPostgres() as server:
        address = server.create_database("sessions")
        asyncio.run(_run_turns(address))
        yield address


def amplifier(url: str, folder: Path, *words: str) -> tuple[int, str]:
    """Type a command as the guide shows it; returns its exit code and what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "amplifier_cli", *words, "--tenant", "acme"],
        env={**os.environ, "AMPLIFIER_DATABASE_URL": url, "AMPLIFIER_HOME": str(folder / "home")},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.fleet
@pytest.mark.parametrize(
    ("words", "code", "shown"),
    [
        ("session show s1", 0, "Note another todo."),
        ("session show s1 --json", 0, '"kind": "session.opened"'),
        ("session export s1", 0, "### Answer"),
        ("explain s1", 0, "who added it"),
        ("top s1", 0, "provider-mock"),
        ("trace s1", 0, "turn 2"),
        ("session replay s1", 0, "2 turn(s) replayed without a difference."),
        ("session diff s1 s1", 0, "no difference"),
        ("session show nobody", 1, "No session `nobody`."),
    ],
)
def test_a_command_on_a_durable_session(
    url: str, tmp_path: Path, words: str, code: int, shown: str
) -> None:
    found, told = amplifier(url, tmp_path, *words.split())
    assert (found, shown in told) == (code, True), told


@pytest.mark.fleet
def test_a_durable_session_becomes_a_test_that_passes(url: str, tmp_path: Path) -> None:
    words = ("session", "to-test", "s1", "-o", "test_it.py", "--name", "todos")
    code, told = amplifier(url, tmp_path, *words)
    assert code == 0, told
    command = [sys.executable, "-m", "pytest", "-q", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.fleet
def test_a_fork_of_a_durable_session_continues_from_its_first_turn(
    url: str, tmp_path: Path
) -> None:
    code, told = amplifier(url, tmp_path, "session", "fork", "s1", "--before-turn", "2")
    assert code == 0, told
    copy = told.split()[0]

    async def go_on() -> str:
        database = Database(url)
        client = Client(database, "acme")
        async with Worker(WorkerSettings(url, parts=all_parts(database))), asyncio.timeout(120):
            turn = await client.submit(copy, "Note a third todo.", idempotency_key="third")
            answer = (await client.result(turn.turn_id)).answer
        database.close()
        return answer or ""

    assert "I called" in asyncio.run(go_on())
    code, told = amplifier(url, tmp_path, "session", "replay", copy)
    assert "2 turn(s) replayed without a difference." in told
    code, told = amplifier(url, tmp_path, "session", "show", copy)
    assert "Note another todo." not in told
    assert "Note a third todo." in told
