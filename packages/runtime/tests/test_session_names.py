"""Ids of sessions belong to their tenant: another may use the same, in old databases too."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from amplifier_runtime.client import Client
from amplifier_runtime.commands.status import describe_session
from amplifier_runtime.database import migrate as migrate_module
from amplifier_runtime.database.database import Connection, Database, execute, one_of
from amplifier_runtime.database.migrate import Migration, known_migrations, migrate
from amplifier_runtime.limits.budgets import Budgets
from amplifier_runtime.log.reader import LogReader
from amplifier_runtime.signals.signals import Signals
from amplifier_runtime.worker.worker import Worker, WorkerSettings
from amplifier_runtime.worker_parts import all_parts

PLAN: dict[str, Any] = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}
TENANTS = ("first", "second", "third")


async def test_each_tenant_has_its_own_session_of_the_same_id(database: Database) -> None:
    for tenant in TENANTS:
        session = await Client(database, tenant).create_session("same", {**PLAN, "of": tenant})
        assert (session.session_id, session.tenant_id) == ("same", tenant)
    for tenant in TENANTS:
        client, signals = Client(database, tenant), Signals(database, tenant)
        turn = await client.submit("same", f"of {tenant}", idempotency_key="k")
        assert (turn.session_id, turn.ordinal) == ("same", 1)
        assert await client.turn(turn.turn_id) == turn
        assert await client.turns("same") == [turn]
        assert (await client.session("same")).plan["of"] == tenant
        await signals.steer("same", tenant, steer_id="steer")
        await Budgets(database).set_tree(tenant, "same", usd=Decimal(len(tenant)))
    for tenant in TENANTS:
        status = await Budgets(database).status(tenant, "same")
        assert status is not None
        assert status["limits"]["usd"] == str(len(tenant))
    lines = [text for label, text in await describe_session(database, "same") if label == "session"]
    assert lines == [f"same of tenant {tenant}" for tenant in TENANTS]


async def test_children_and_parents_are_named_as_their_tenant_names_them(
    database: Database,
) -> None:
    for tenant in TENANTS:
        client = Client(database, tenant)
        await client.create_session("root", PLAN)
        child = await client.create_session("below", PLAN, parent_id="root")
        assert (child.session_id, child.parent_id) == ("below", "root")


async def test_tenants_that_take_an_id_in_the_same_moment_all_get_one(database: Database) -> None:
    clients = [Client(database, f"tenant-{number}") for number in range(8)]
    made = await asyncio.gather(*(each.create_session("same", PLAN) for each in clients))
    assert [each.session_id for each in made] == ["same"] * len(clients)
    sql = "SELECT COUNT(DISTINCT session_id) AS keys FROM sessions"
    row = await database.run(lambda connection: one_of(connection, sql))
    assert row is not None
    assert row["keys"] == len(clients)


async def test_turns_of_the_same_id_run_apart(url: str, echo_plan: dict[str, Any]) -> None:
    database = Database(url)
    settings = WorkerSettings(url, poll_seconds=0.05, parts=all_parts(database))
    async with Worker(settings), asyncio.timeout(120):
        for tenant in TENANTS:
            client = Client(database, tenant)
            await client.create_session("same", echo_plan)
            turn = await client.submit("same", f"of {tenant}", idempotency_key="k")
            assert (await client.result(turn.turn_id)).answer == f"[mock] You said: of {tenant}"
    for tenant in TENANTS:
        messages = await Client(database, tenant).messages("same")
        assert [each["content"] for each in messages][0] == f"of {tenant}"
        log = await LogReader(database).read(tenant, "same")
        assert {each.session_id for each in log} == {"same"}
        said = [each.data["text"] for each in log if each.kind == "prompt"]
        assert said == [f"of {tenant}"]
        # What modules are given as the id of their session is what the tenant calls it.
        assert not [each for each in log if "session-" in str(each.data)]
    database.close()


async def test_sessions_of_a_database_of_before_keep_their_ids(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(empty_url)

    def of_before() -> list[Migration]:
        return [each for each in known_migrations() if each.number < 8]

    with monkeypatch.context() as patched:
        patched.setattr(migrate_module, "known_migrations", of_before)
        await migrate(database)

    def fill(connection: Connection) -> None:
        execute(connection, "INSERT INTO tenants (tenant_id, created_at) VALUES ('first', 0)")
        execute(
            connection,
            "INSERT INTO sessions (session_id, tenant_id, plan, created_at) "
            "VALUES ('old', 'first', '{}', 0)",
        )

    await database.run(fill)
    assert [each.number for each in await migrate(database)][0] == 8
    assert (await Client(database, "first").session("old")).session_id == "old"
    turn = await Client(database, "first").submit("old", "x", idempotency_key="k")
    await Client(database, "second").create_session("old", PLAN)
    assert await Client(database, "second").turns("old") == []
    assert await Client(database, "first").turns("old") == [turn]
    database.close()
