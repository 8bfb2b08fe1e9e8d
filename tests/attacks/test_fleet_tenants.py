"""An id that another tenant uses says nothing, and can be used."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.signals.signals import Signals

pytestmark = pytest.mark.attack("review L10")

OURS, EVIL = "acme", "evil"
PLAN: dict[str, Any] = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock", "config": {"mode": "echo"}}],
}


@pytest.fixture
def database(tmp_path: Path) -> Generator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'runtime.sqlite'}", connections=1)
    asyncio.run(migrate(database))
    yield database
    database.close()


async def attempt(client: Client, name: str) -> str:
    """Return what becomes of a new session, without its id."""
    try:
        session = await client.create_session(name, PLAN)
    except Exception as error:  # noqa: BLE001 - any answer is an answer
        return f"{type(error).__name__}: {error}".replace(name, "<id>")
    return str(session).replace(name, "<id>")


async def test_a_taken_id_is_answered_like_a_free_one(database: Database) -> None:
    await Client(database, OURS).create_session("taken", PLAN)
    evil = Client(database, EVIL)
    assert await attempt(evil, "taken") == await attempt(evil, "free")
    assert "epoch" in await attempt(evil, "taken")


async def test_a_taken_id_costs_the_same_statements_as_a_free_one(database: Database) -> None:
    await Client(database, OURS).create_session("taken", PLAN)
    evil = Client(database, EVIL)
    await evil.create_session("first", PLAN)
    sent: list[str] = []

    def note(*given: Any) -> None:
        sent.append(str(given[2]))

    event.listen(database.engine, "before_cursor_execute", note)
    await evil.create_session("taken", PLAN)
    for_taken = sent.copy()
    sent.clear()
    await evil.create_session("free", PLAN)
    assert for_taken == sent


async def test_sessions_of_the_same_id_share_nothing(database: Database) -> None:
    ours, evil = Client(database, OURS), Client(database, EVIL)
    await ours.create_session("same", {**PLAN, "secret": "ours"})
    turn = await ours.submit("same", "a confidential prompt", idempotency_key="k")
    session = await evil.create_session("same", PLAN)
    assert "secret" not in session.plan
    assert await evil.turns("same") == []
    assert await evil.messages("same") == []
    theirs = await evil.submit("same", "x", idempotency_key="k")
    assert theirs.turn_id != turn.turn_id
    await Signals(database, EVIL).cancel(theirs.turn_id)
    assert (await ours.turn(turn.turn_id)).state == "ready"
    assert [each.turn_id for each in await ours.turns("same")] == [turn.turn_id]
