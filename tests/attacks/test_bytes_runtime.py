"""Any bytes are survivable on a database: each turn ends, and what was paid for is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Connection, Database, execute
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.database.store import Turn
from amplifier_runtime.errors import TurnFailedError
from amplifier_runtime.worker.worker import Worker, WorkerSettings
from amplifier_runtime.worker_parts import all_parts

# The engine lets go of its connections without waiting for its threads that still use some.
pytestmark = pytest.mark.filterwarnings("ignore:<psycopg.Connection object:ResourceWarning")

_STORES = [
    pytest.param("sqlite", marks=pytest.mark.slow),
    pytest.param("postgres", marks=pytest.mark.fleet),
]
_SESSION = {"orchestrator": "loop-basic", "context": "context-simple"}


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    """A new database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'runtime.sqlite'}"
        return
    with LocalPostgres(settings="fsync = off") as server:
        yield server.create_database("attacks")


@asynccontextmanager
async def working(url: str) -> AsyncGenerator[tuple[Client, Database]]:
    """Give a client of a database with one worker on it."""
    database = Database(url, patience_seconds=5)
    await migrate(database)
    settings = WorkerSettings(url, poll_seconds=0.05, parts=all_parts(database))
    async with Worker(settings):
        yield Client(database, "acme"), database
    database.close()


def _plan(script: list[Any], *tools: dict[str, Any]) -> dict[str, Any]:
    config = {"script": script}
    providers = [{"module": "provider-mock", "config": config}]
    return {"session": _SESSION, "providers": providers, "tools": list(tools)}


async def _ended(client: Client, turn: Turn) -> Turn:
    """Return a turn that is over, or as it is when nobody can finish it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(120):
            while not turn.is_finished and turn.state != "parked":
                await asyncio.sleep(0.05)
                turn = await client.turn(turn.turn_id)
    return turn


async def _tries(action: Callable[[], Awaitable[Any]]) -> str:
    """Return how an action failed, or nothing."""
    try:
        await action()
    except Exception as error:  # noqa: BLE001 - the test says which it should have been
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.attack("review M6")
@pytest.mark.parametrize("url", _STORES, indirect=True)
async def test_what_a_database_cannot_store_is_stored_visibly_and_the_turn_ends(url: str) -> None:
    async with working(url) as (client, _):
        ends: dict[str, Turn] = {}
        for name, answer, prompt in (
            ("nul", "a\x00b", "hi"),
            ("half", "a\ud800b", "hi"),
            ("prompt", "fine", "a\x00\ud800b"),
        ):
            await client.create_session(name, _plan([answer, "again"]))
            refused = await _tries(
                lambda n=name, p=prompt: client.submit(n, p, idempotency_key="1")
            )
            assert refused == ""
            turn = (await client.turns(name))[0]
            ends[name] = await _ended(client, turn)
            following = await client.submit(name, "next", idempotency_key="2")
            assert (await _ended(client, following)).state == "done", name

    assert {name: turn.state for name, turn in ends.items()} == dict.fromkeys(ends, "done")
    assert ends["nul"].answer == "a\u2400b"
    assert ends["half"].answer == "a\ufffdb"
    assert ends["prompt"].prompt == "a\u2400\ufffdb"


@pytest.mark.attack("review M6")
async def test_a_prompt_that_no_database_takes_is_taken(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'runtime.sqlite'}", patience_seconds=5)
    await migrate(database)
    client = Client(database, "acme")
    await client.create_session("s", _plan(["x"]))

    refused = await _tries(lambda: client.submit("s", "a\ud800\x00b", idempotency_key="1"))
    repeated = await _tries(lambda: client.submit("s", "a\ud800\x00b", idempotency_key="1"))
    turns = [] if refused else await client.turns("s")
    database.close()

    assert (refused, repeated) == ("", "")
    assert [turn.prompt for turn in turns] == ["a\ufffd\u2400b"]


_MALFORMED: dict[str, tuple[Any, str]] = {
    "session": ({"session": 5}, "session"),
    "providers": ({"session": _SESSION, "providers": ["x"]}, "providers[0]"),
    "config": (
        {"session": _SESSION, "providers": [{"module": "provider-mock", "config": "x"}]},
        "providers[0].config",
    ),
    "hooks": ({"session": _SESSION, "hooks": [["x"]]}, "hooks[0]"),
}


@pytest.mark.attack("review L8")
@pytest.mark.parametrize("name", _MALFORMED)
async def test_a_malformed_plan_is_refused_when_it_is_submitted(name: str, tmp_path: Path) -> None:
    plan, path = _MALFORMED[name]
    database = Database(f"sqlite:///{tmp_path / 'runtime.sqlite'}", patience_seconds=5)
    await migrate(database)

    refused = await _tries(lambda: Client(database, "acme").create_session("s", plan))
    database.close()

    assert refused.startswith("PlanError")
    assert f"`{path}`" in refused


def _store_plan(connection: Connection, *, session: str, plan: str) -> None:
    sql = "UPDATE sessions SET plan = :plan WHERE session_id = :session"
    execute(connection, sql, plan=plan, session=session)


@pytest.mark.attack("review L8")
@pytest.mark.parametrize("url", _STORES, indirect=True)
async def test_a_malformed_plan_that_is_stored_already_fails_its_turn(url: str) -> None:
    async with working(url) as (client, database):
        for name, (plan, _) in _MALFORMED.items():
            await client.create_session(name, _plan(["x"]))
            await database.run(partial(_store_plan, session=name, plan=json.dumps(plan)))
        turns = [await client.submit(name, "hi", idempotency_key="1") for name in _MALFORMED]
        ends = [await _ended(client, turn) for turn in turns]
        failed = await _tries(lambda: client.result(turns[1].turn_id))

    assert [turn.state for turn in ends] == ["failed"] * len(ends)
    assert [turn.crashes for turn in ends] == [0] * len(ends)
    assert failed.startswith(TurnFailedError.__name__)
    assert "providers[0]" in failed
