"""Two tenants: nothing of the one is found, changed or shown through any call of the other."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Iterator
from decimal import Decimal
from importlib import import_module
from typing import Any

import pytest

import amplifier_runtime
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import SCHEMA, Connection, Database, all_of, execute
from amplifier_runtime.database.store import Store, Turn
from amplifier_runtime.errors import NotFoundError
from amplifier_runtime.limits.budgets import Budgets
from amplifier_runtime.log.reader import LogReader
from amplifier_runtime.signals.signals import Signals

PLAN: dict[str, Any] = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}
MINE, THEIRS = "mine", "theirs"
SESSION, APPROVAL = "session-1", "approval-1"

Call = Callable[[Database, Turn], Awaitable[Any]]


async def _tail(database: Database, session_id: str) -> None:
    async for _ in LogReader(database).tail(THEIRS, session_id):
        return


# What takes an id that may be another tenant's, called with one that is.
CALLS: dict[str, Call] = {
    "Budgets.set_tree": lambda d, t: Budgets(d).set_tree(THEIRS, t.session_id, usd=Decimal(9)),
    "Budgets.status": lambda d, t: Budgets(d).status(THEIRS, t.session_id),
    "Client.create_session parent": lambda d, t: Client(d, THEIRS).create_session(
        "new", PLAN, parent_id=t.session_id
    ),
    "Client.delete_session": lambda d, t: Client(d, THEIRS).delete_session(t.session_id),
    "Client.update_session": lambda d, t: Client(d, THEIRS).update_session(t.session_id, PLAN),
    "Client.messages": lambda d, t: Client(d, THEIRS).messages(t.session_id),
    "Client.result": lambda d, t: Client(d, THEIRS).result(t.turn_id),
    "Client.session": lambda d, t: Client(d, THEIRS).session(t.session_id),
    "Client.submit": lambda d, t: Client(d, THEIRS).submit(
        t.session_id, t.prompt, idempotency_key=t.idempotency_key
    ),
    "Client.turn": lambda d, t: Client(d, THEIRS).turn(t.turn_id),
    "Client.turns": lambda d, t: Client(d, THEIRS).turns(t.session_id),
    "LogReader.read": lambda d, t: LogReader(d).read(THEIRS, t.session_id),
    "LogReader.tail": lambda d, t: _tail(d, t.session_id),
    "Signals.answer": lambda d, t: Signals(d, THEIRS).answer(APPROVAL, "Allow", by="them"),
    "Signals.approval": lambda d, t: Signals(d, THEIRS).approval(APPROVAL),
    "Signals.approvals": lambda d, t: Signals(d, THEIRS).approvals(t.session_id),
    "Signals.cancel": lambda d, t: Signals(d, THEIRS).cancel(t.turn_id, immediate=True),
    "Signals.steer": lambda d, t: Signals(d, THEIRS).steer(t.session_id, "Stop."),
    "Store.create_session parent": lambda d, t: Store(d).create_session(
        THEIRS, "new", PLAN, parent_id=t.session_id
    ),
    "Store.delete_session": lambda d, t: Store(d).delete_session(THEIRS, t.session_id),
    "Store.update_session": lambda d, t: Store(d).update_session(THEIRS, t.session_id, PLAN),
    "Store.messages": lambda d, t: Store(d).messages(THEIRS, t.session_id),
    "Store.session": lambda d, t: Store(d).session(THEIRS, t.session_id),
    "Store.submit": lambda d, t: Store(d).submit(
        THEIRS, t.session_id, t.prompt, idempotency_key=t.idempotency_key
    ),
    "Store.submit parent": lambda d, t: Store(d).submit(
        THEIRS, "own", "x", idempotency_key="k", parent_turn_id=t.turn_id
    ),
    "Store.turn": lambda d, t: Store(d).turn(THEIRS, t.turn_id),
    "Store.session_key": lambda d, t: Store(d).session_key(THEIRS, t.session_id),
    "Store.turns": lambda d, t: Store(d).turns(THEIRS, t.session_id),
}
# What takes a tenant's own name and no other id, and what only workers call, with a claim.
WITHOUT_IDS = {
    "Budgets.hold",
    "Budgets.left",
    "Budgets.set_quota",
    "Budgets.settle",
    "Client.has_worker",
    "Client.session_ids",
    "PlanKeys.resolve",
    "SecretStore.names",
    "SecretStore.read",
    "SecretStore.remove",
    "SecretStore.rotate",
    "SecretStore.set",
    "Store.create_tenant",
    "Store.session_ids",
}


def calls_of_tenants() -> Iterator[str]:
    """Yield every public call of every public class that speaks for a tenant."""
    for found in pkgutil.walk_packages(amplifier_runtime.__path__, "amplifier_runtime."):
        module = import_module(found.name)
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == found.name and not name.startswith("_"):
                calls = dict(inspect.getmembers(kind, _is_async))
                if any(_takes_tenant(each) for each in (kind.__init__, *calls.values())):
                    yield from (f"{name}.{call}" for call in calls if not call.startswith("_"))


def _is_async(member: object) -> bool:
    return inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)


def _takes_tenant(function: Any) -> bool:
    return "tenant_id" in inspect.signature(function).parameters


async def everything(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all tables, apart from those that only say that somebody was there."""
    names = "SELECT name AS name FROM sqlite_master WHERE type = 'table'"
    if not database.is_sqlite:
        names = f"SELECT tablename AS name FROM pg_tables WHERE schemaname = '{SCHEMA}'"

    def read(connection: Connection) -> dict[str, list[dict[str, Any]]]:
        tables = [row["name"] for row in all_of(connection, names)]
        return {
            table: [dict(row) for row in all_of(connection, f"SELECT * FROM {table}")]
            for table in sorted(tables)
        }

    return await database.run(read)


@pytest.fixture
async def turn(database: Database) -> Turn:
    """Return a turn of mine that waits for an answer, with a budget, beside a session of theirs."""
    mine = Client(database, MINE)
    await mine.create_session(SESSION, PLAN)
    await Client(database, THEIRS).create_session("own", PLAN)
    turn = await mine.submit(SESSION, "buy", idempotency_key="k")
    await Budgets(database).set_tree(MINE, SESSION, usd=Decimal(1))

    def ask(connection: Connection) -> None:
        execute(
            connection,
            "INSERT INTO approvals (approval_id, tenant_id, session_id, turn_id, key, prompt, "
            "options, asked_at) VALUES (:approval, :tenant, :session, :turn, 'k', '\"Pay?\"', "
            '\'["Allow", "Deny"]\', now_ms())',
            approval=APPROVAL,
            tenant=MINE,
            session=SESSION,
            turn=turn.turn_id,
        )

    await database.run(ask)
    return turn


def test_no_call_is_forgotten() -> None:
    tried = {name.partition(" ")[0] for name in CALLS}
    assert tried | WITHOUT_IDS == set(calls_of_tenants())
    assert tried.isdisjoint(WITHOUT_IDS)


@pytest.mark.parametrize("name", CALLS)
async def test_with_the_other_tenants_ids_a_call_finds_and_changes_nothing(
    database: Database, turn: Turn, name: str
) -> None:
    before = await everything(database)
    with pytest.raises(NotFoundError):
        await CALLS[name](database, turn)
    assert await everything(database) == before


async def test_what_is_listed_without_an_id_is_ones_own(database: Database, turn: Turn) -> None:
    assert [each.approval_id for each in await Signals(database, MINE).approvals()] == [APPROVAL]
    assert await Signals(database, THEIRS).approvals() == []
    assert await Client(database, MINE).session_ids() == [SESSION]
    assert await Client(database, THEIRS).session_ids() == ["own"]


async def test_what_is_another_tenants_is_told_like_what_does_not_exist(
    database: Database, turn: Turn
) -> None:
    for mine, absent in ((SESSION, "session-0"), (turn.turn_id, "turn-0")):
        theirs = Client(database, THEIRS)
        look = theirs.session if mine == SESSION else theirs.turn
        with pytest.raises(NotFoundError) as for_mine:
            await look(mine)
        with pytest.raises(NotFoundError) as for_absent:
            await look(absent)
        assert str(for_mine.value).replace(mine, absent) == str(for_absent.value)
