"""What the durable runtime writes down is for its owner alone."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.migrate import migrate
from amplifier_sandbox.platforms.users import is_administrator
from attacks.machine import Machine

PLAN: dict[str, Any] = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock", "config": {"mode": "echo"}}],
}
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@pytest.fixture(params=[0o000, 0o022], ids=["umask 0", "umask 022"])
def umask(request: pytest.FixtureRequest) -> Generator[int]:
    """Let every new file be open to others, unless it is made otherwise."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def open_to_others(folder: Path) -> dict[str, str]:
    """Return what others may do with the files in a folder, by name."""
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    return {name: f"{mode:04o}" for name, mode in modes.items() if mode & _OTHERS}


async def keep_a_prompt(database: Database) -> None:
    client = Client(database, "me")
    await client.create_session("s", PLAN)
    await client.submit("s", "a confidential prompt", idempotency_key="k")


@pytest.mark.attack("review M7")
async def test_every_file_of_a_new_database_is_private(umask: int, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    database = Database(f"sqlite:///{folder / 'runtime.sqlite'}")
    try:
        await migrate(database)
        await keep_a_prompt(database)
        names = {each.name for each in folder.iterdir()}
        assert names >= {"runtime.sqlite", "runtime.sqlite-wal", "runtime.sqlite-shm"}
        assert open_to_others(folder) == {}
    finally:
        database.close()


@pytest.mark.attack("review M7")
async def test_files_that_are_there_are_made_private_before_they_are_used(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    path = folder / "runtime.sqlite"
    first = Database(f"sqlite:///{path}")
    await migrate(first)
    for each in folder.iterdir():
        each.chmod(0o644)
    second = Database(f"sqlite:///{path}")
    try:
        assert open_to_others(folder) == {}
        await keep_a_prompt(second)
        assert open_to_others(folder) == {}
    finally:
        first.close()
        second.close()


@pytest.mark.slow
@pytest.mark.attack("review M7")
def test_the_runtime_that_comes_first_makes_folder_and_file_private(
    machine: Machine, umask: int
) -> None:
    machine.home.rmdir()
    done = machine.amplifier("runtime", "migrate")
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(machine.home.stat().st_mode) == 0o700
    assert open_to_others(machine.home) == {}


@pytest.mark.slow
@pytest.mark.attack("review M7")
def test_a_folder_that_is_open_is_closed_by_the_next_command(machine: Machine) -> None:
    machine.amplifier("runtime", "migrate")
    machine.home.chmod(0o755)
    (machine.home / "runtime.sqlite").chmod(0o644)
    done = machine.amplifier("runtime", "status")
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(machine.home.stat().st_mode) == 0o700
    assert open_to_others(machine.home) == {}


@pytest.mark.slow
@pytest.mark.attack("review M7")
def test_a_file_that_others_could_have_written_is_refused_and_the_next_step_works(
    machine: Machine,
) -> None:
    machine.amplifier("runtime", "migrate")
    (machine.home / "runtime.sqlite").chmod(0o666)
    refused = machine.amplifier("runtime", "status")
    assert refused.returncode != 0
    lines = refused.stderr.strip().splitlines()
    assert len(lines) <= 3
    assert "runtime.sqlite" in lines[0]
    command = lines[-1][lines[-1].index("chmod") :].strip("`. ")
    subprocess.run(["/bin/sh", "-c", command], check=True, timeout=10)
    assert machine.amplifier("runtime", "status").returncode == 0
    assert open_to_others(machine.home) == {}


@pytest.mark.slow
@pytest.mark.attack("review M7")
@pytest.mark.skipif(not is_administrator(), reason="only root can be another user")
def test_another_user_cannot_read_a_prompt(umask: int, tmp_path: Path) -> None:
    # Nothing above protects it: as if the folder were one that others may enter.
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    path = folder / "runtime.sqlite"

    async def use() -> None:
        database = Database(f"sqlite:///{path}")
        await migrate(database)
        await keep_a_prompt(database)
        database.close()

    asyncio.run(use())
    for each in (tmp_path, *tmp_path.parents):
        if not each.stat().st_mode & stat.S_IXOTH:
            each.chmod(each.stat().st_mode | stat.S_IXOTH)
    setpriv = shutil.which("setpriv")
    assert setpriv is not None
    other = [setpriv, "--reuid=12345", "--regid=12345", "--clear-groups"]
    seen = subprocess.run([*other, "cat", str(path)], capture_output=True, timeout=10, check=False)
    assert b"confidential" not in seen.stdout
