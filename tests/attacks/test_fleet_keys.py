"""A key that a plan needs is a reference: it is in no database, log or session file."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate
from attacks.machine import Machine
from end_to_end.model_server import ModelServer, Said

pytestmark = pytest.mark.attack("review B8")

_PROGRAM = Path(__file__).parent / "keyed_fleet.py"
# Of no form that a pattern knows.
CANARY = "canary0f1e2d3c4b5a69788796a5b4c3d2e1f0"
NAME = "FLEET_TEST_KEY"
SESSION = {"orchestrator": "loop-basic", "context": "context-simple"}


def plan_with(provider: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"session": SESSION, "providers": [provider], **more}


def mock(**config: Any) -> dict[str, Any]:
    return {"module": "provider-mock", "config": config}


CLEAR = {
    "api_key": plan_with(mock(api_key=CANARY)),
    "password of letters and digits": plan_with(mock(password=CANARY[:9])),
    "header": plan_with(mock(headers={"Authorization": f"Bearer {CANARY}"})),
    "beside a reference": plan_with(mock(headers={"Authorization": f"${{NAME}} {CANARY}"})),
    "as a default": plan_with(mock(api_key=f"${{NAME:{CANARY}}}")),
    "variable of a server": plan_with(
        mock(),
        tools=[{"module": "tool-mcp", "config": {"servers": {"x": {"env": {"X_TOKEN": CANARY}}}}}],
    ),
    "in a list": plan_with(mock(api_keys=[CANARY])),
    "of an agent": plan_with(mock(), agents={"a": {"providers": [mock(api_key=CANARY)]}}),
    "by its form": plan_with(mock(note="sk-ant-api03-" + "A1b2C3d4" * 12)),
    "in an address": plan_with(mock(dsn=f"postgresql://me:{CANARY}@db.example/x")),
    "in an instruction": plan_with(mock(), agents={"a": {"instruction": "ghp_" + "a1B2" * 9}}),
}


@pytest.mark.parametrize("where", CLEAR)
async def test_a_plan_with_a_key_in_clear_is_refused(where: str, tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'runtime.sqlite'}", connections=1)
    await migrate(database)
    refusal = ""
    try:
        await Client(database, "acme").create_session("s", CLEAR[where])
    except Exception as error:  # noqa: BLE001 - it is looked at below
        refusal = str(error)
    finally:
        database.close()
    assert found_in(tmp_path, CANARY[:9], "sk-ant-api03-A1", "ghp_a1B2") == []
    lines = refusal.splitlines()
    assert len(lines) == 3
    assert "in clear" in lines[0]
    assert "amplifier runtime secrets set" in lines[2]
    assert CANARY[:9] not in refusal


def found_in(folder: Path, *texts: str) -> list[str]:
    """Return the files that have one of the texts in them, as it is or in base64."""
    wanted = [each.encode() for each in texts]
    wanted += [b64encode(each).rstrip(b"=")[:-1] for each in wanted if len(each) > 20]
    files = [each for each in folder.rglob("*") if each.is_file()]
    return [each.name for each in files if any(want in each.read_bytes() for want in wanted)]


class KeyedServer(ModelServer):
    """A model that notes which key each request came with."""

    def __init__(self, script: list[Said]) -> None:
        self.keys: list[str | None] = []
        super().__init__(script)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        keys = self.keys
        plain: Any = super()._handler()

        class Noting(plain):
            def do_POST(self) -> None:
                given: str | None = self.headers.get("authorization")
                keys.append(given)
                plain.do_POST(self)

        return Noting


@pytest.fixture
def server() -> Generator[KeyedServer]:
    with KeyedServer([Said(["It works."])] * 3) as server:
        yield server


def referring_plan(server: ModelServer, reference: str) -> dict[str, Any]:
    config = {"base_url": server.url, "api_key": reference, "default_model": "scripted-model"}
    return plan_with({"module": "provider-chat-completions", "config": config})


def run_turn(
    machine: Machine, url: str, plan: dict[str, Any], **variables: str
) -> tuple[dict[str, Any], str]:
    """Run a turn in a worker of its own; returns how it ended and everything that was logged."""
    path = machine.write("plan.json", plan)
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), url, str(path)],
        env={**machine.environment, **variables},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout), done.stderr


def secrets(machine: Machine, *arguments: str, stdin: str = "") -> str:
    done = machine.amplifier("runtime", "secrets", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert CANARY not in done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("reference", [f"${{{NAME}}}", f"env:{NAME}"])
def test_a_key_of_the_workers_environment_is_used_and_stored_nowhere(
    machine: Machine, server: KeyedServer, reference: str
) -> None:
    url = f"sqlite:///{machine.home / 'runtime.sqlite'}"
    plan = referring_plan(server, reference)
    ended, logged = run_turn(machine, url, plan, **{NAME: CANARY})
    assert server.keys == [f"Bearer {CANARY}"]
    assert (ended["state"], ended["answer"]) == ("done", "It works.")
    assert found_in(machine.user_home, CANARY) == []
    assert CANARY not in logged


@pytest.mark.slow
def test_a_secret_of_the_database_is_encrypted_there(machine: Machine, server: KeyedServer) -> None:
    machine.amplifier("runtime", "migrate")
    key = secrets(machine, "new-key")
    machine.environment["AMPLIFIER_SECRETS_KEY"] = key
    secrets(machine, "set", NAME, stdin=f"{CANARY}\n")
    assert NAME in secrets(machine, "list")
    url = f"sqlite:///{machine.home / 'runtime.sqlite'}"
    ended, logged = run_turn(machine, url, referring_plan(server, f"${{{NAME}}}"))
    assert server.keys == [f"Bearer {CANARY}"]
    assert ended["state"] == "done"
    assert found_in(machine.user_home, CANARY, key) == []
    assert CANARY not in logged
    assert key not in logged
    # A new key before the old one, all rows encrypted with it, the old one removed.
    newer = secrets(machine, "new-key")
    machine.environment["AMPLIFIER_SECRETS_KEY"] = f"{newer},{key}"
    secrets(machine, "rotate")
    machine.environment["AMPLIFIER_SECRETS_KEY"] = newer
    secrets(machine, "set", "ANOTHER", stdin="another value 1\n")
    secrets(machine, "remove", NAME)
    assert NAME not in secrets(machine, "list")


@pytest.mark.slow
def test_a_key_that_is_missing_ends_the_turn_with_the_way_out(
    machine: Machine, server: KeyedServer
) -> None:
    url = f"sqlite:///{machine.home / 'runtime.sqlite'}"
    ended, _ = run_turn(machine, url, referring_plan(server, f"${{{NAME}}}"))
    assert ended["state"] == "failed"
    assert f"amplifier runtime secrets set {NAME}" in ended["error"]["message"]
    assert server.keys == []


@pytest.mark.fleet
def test_a_dump_of_postgresql_has_no_key(machine: Machine, server: KeyedServer) -> None:
    with LocalPostgres(settings="fsync = off") as postgres:
        url = postgres.create_database("keys")
        machine.environment["AMPLIFIER_DATABASE_URL"] = url
        database = Database(url, connections=1)
        asyncio.run(migrate(database))
        database.close()
        machine.environment["AMPLIFIER_SECRETS_KEY"] = secrets(machine, "new-key")
        secrets(machine, "set", NAME, "--tenant", "acme", stdin=f"{CANARY}\n")
        ended, logged = run_turn(machine, url, referring_plan(server, f"secret:{NAME}"))
        dumped = dump(url)
    assert server.keys == [f"Bearer {CANARY}"]
    assert ended["state"] == "done"
    assert "It works." in dumped
    assert CANARY not in dumped
    assert CANARY not in logged
    assert found_in(machine.user_home, CANARY) == []


def dump(url: str) -> str:
    """Return the whole database as text."""
    program = shutil.which("pg_dump")
    assert program is not None
    address = sa.make_url(url)
    password = {"PGPASSFILE": str(address.query["passfile"])} if address.query else {}
    done = subprocess.run(
        [
            *(program, "-w", "-h", str(address.host), "-p", str(address.port)),
            *("-U", str(address.username), str(address.database)),
        ],
        env={"PATH": os.environ["PATH"], **password},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
