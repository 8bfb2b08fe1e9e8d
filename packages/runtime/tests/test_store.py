"""Sessions, turns and messages in the database, and who may take which turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from runtime_stage import rows

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, execute
from amplifier_runtime.database.migrate import check_schema, known_migrations, migrate, pending
from amplifier_runtime.database.store import Store, wake_turn
from amplifier_runtime.errors import (
    Fenced,
    IdempotencyError,
    NotFoundError,
    NoWorkerError,
    SchemaError,
)
from amplifier_runtime.turns.claims import Claims, Outcome
from amplifier_runtime.worker.liveness import Liveness, Observer

PLAN: dict[str, Any] = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}
ANSWERED = Outcome("done", "hi", None, [{"role": "user", "content": "x"}], {})


async def register(database: Database, worker_id: str) -> Liveness:
    liveness = Liveness(database, worker_id, code_version="1", concurrency=4)
    await liveness.register()
    return liveness


def undertaker(database: Database) -> Observer:
    """Return one who takes everybody for dead."""
    return Observer(database, dead_after_seconds=0)


async def worker(
    database: Database, worker_id: str = "w1", versions: tuple[str, ...] = ("1",)
) -> Claims:
    await register(database, worker_id)
    return Claims(database, worker_id, versions)


async def submit(database: Database, session: str, key: str, tenant: str = "t") -> str:
    store = Store(database)
    await store.create_session(tenant, session, PLAN)
    turn = await store.submit(tenant, session, f"prompt {key}", idempotency_key=key)
    return turn.turn_id


async def test_a_dry_run_names_what_would_be_applied_and_changes_nothing(
    empty_url: str,
) -> None:
    database = Database(empty_url)
    try:
        wanted = await pending(database)
        assert [each.number for each in wanted] == [each.number for each in known_migrations()]
        assert await pending(database) == wanted
        with pytest.raises(SchemaError, match="amplifier runtime migrate"):
            await check_schema(database)
        assert await migrate(database) == wanted
        assert await migrate(database) == []
        await check_schema(database)
    finally:
        database.close()


async def test_whoever_migrates_at_once_with_others_makes_the_tables_of_the_engine_too(
    empty_url: str,
) -> None:
    database = Database(empty_url)
    try:
        await asyncio.gather(*(migrate(database) for _ in range(4)))
        journal = "workflow_events" if database.is_sqlite else "dbos.workflow_events"
        assert await rows(database, f"SELECT * FROM {journal}") == []
    finally:
        database.close()


async def test_a_migration_that_was_changed_afterwards_is_refused(database: Database) -> None:
    await database.run(lambda c: execute(c, "UPDATE migrations SET digest = 'x' WHERE number = 1"))
    with pytest.raises(SchemaError, match="0001"):
        await migrate(database)


async def test_the_same_key_gives_the_same_turn_even_when_submitted_at_once(
    database: Database,
) -> None:
    store = Store(database)
    await store.create_session("t", "s", PLAN)
    turns = await asyncio.gather(
        *(store.submit("t", "s", "p", idempotency_key="k") for _ in range(8))
    )
    assert len({turn.turn_id for turn in turns}) == 1
    assert len(await store.turns("t", "s")) == 1
    with pytest.raises(IdempotencyError):
        await store.submit("t", "s", "another", idempotency_key="k")


async def test_turns_of_one_session_are_taken_one_at_a_time_and_in_order(
    database: Database,
) -> None:
    first, second = await submit(database, "s", "a"), await submit(database, "s", "b")
    claims = await worker(database)
    [claim] = await claims.take(10)
    assert claim.turn_id == first
    assert await claims.take(10) == []
    await claims.finish(claim, ANSWERED)
    [claim] = await claims.take(10)
    assert claim.turn_id == second
    assert claim.messages == [{"role": "user", "content": "x"}]
    assert claim.epoch == 2


async def test_the_tenant_with_the_fewest_running_turns_comes_first(database: Database) -> None:
    for number in range(6):
        await submit(database, f"many-{number}", "k", tenant="many")
    for number in range(2):
        await submit(database, f"few-{number}", "k", tenant="few")
    claims = await worker(database)
    taken = [claim.tenant_id for claim in await claims.take(4)]
    assert sorted(taken) == ["few", "few", "many", "many"]
    await submit(database, "late", "k", tenant="few")
    await submit(database, "other", "k", tenant="new")
    assert [claim.tenant_id for claim in await claims.take(1)] == ["new"]


async def test_a_heavier_tenant_gets_a_larger_share_and_a_bounded_one_no_more(
    database: Database,
) -> None:
    store = Store(database)
    await store.create_tenant("heavy", weight=3)
    await store.create_tenant("bounded", max_running=1)
    for tenant in ("heavy", "light", "bounded"):
        for number in range(8):
            await submit(database, f"{tenant}-{number}", "k", tenant=tenant)
    claims = await worker(database)
    taken = [claim.tenant_id for claim in await claims.take(9)]
    assert taken.count("bounded") == 1
    assert taken.count("heavy") == 6


async def test_two_workers_never_take_the_same_turn(database: Database) -> None:
    for number in range(20):
        await submit(database, f"s{number}", "k")
    one, two = await worker(database, "w1"), await worker(database, "w2")
    taken = [
        claim.turn_id
        for claims in await asyncio.gather(*(each.take(6) for each in (one, two, one, two)))
        for claim in claims
    ]
    assert len(taken) == len(set(taken))


async def test_a_turn_begun_by_other_code_is_left_to_it(database: Database) -> None:
    await submit(database, "s", "k")
    old = await worker(database, "w1", ("1",))
    [claim] = await old.take(1)
    await old.give_back(claim)
    assert await (await worker(database, "w2", ("2",))).take(1) == []
    assert len(await (await worker(database, "w3", ("2", "1"))).take(1)) == 1


async def test_a_fenced_run_can_finish_nothing_park_nothing_and_give_back_nothing(
    database: Database,
) -> None:
    turn_id = await submit(database, "s", "k")
    late = await worker(database, "late")
    [old] = await late.take(1)
    assert await undertaker(database).reap_dead_workers() == ["late"]
    living = await worker(database, "other")
    [new] = await living.take(1)
    assert new.epoch > old.epoch
    with pytest.raises(Fenced):
        await late.finish(old, ANSWERED)
    with pytest.raises(Fenced):
        await late.park(old, "approval", 0)
    await late.give_back(old)
    turn = await Store(database).turn("t", turn_id)
    assert (turn.state, turn.worker_id, turn.crashes) == ("running", "other", 1)
    assert await Store(database).messages("t", "s") == []
    assert await late.take(1) == []
    await living.finish(new, ANSWERED)
    # A commit whose answer got lost is tried again, and finds that it was written.
    await living.finish(new, ANSWERED)
    assert (await Store(database).turn("t", turn_id)).answer == "hi"


@pytest.mark.attack("J5")
async def test_j5_a_turn_that_kills_its_workers_is_parked_with_the_reason(
    database: Database,
) -> None:
    """J5."""
    turn_id = await submit(database, "s", "k")
    await submit(database, "other", "k")
    for number in range(3):
        claims = await worker(database, f"w{number}")
        assert turn_id in [claim.turn_id for claim in await claims.take(1)]
        assert await undertaker(database).reap_dead_workers() == [f"w{number}"]
    turn = await Store(database).turn("t", turn_id)
    assert (turn.state, turn.reason, turn.crashes) == ("parked", "crashed", 3)
    # A signal, such as the answer to a question, does not replace the operator.
    await database.run(lambda c: wake_turn(c, turn_id))
    woken = await Store(database).turn("t", turn_id)
    assert (woken.state, woken.reason, woken.signals) == ("parked", "crashed", turn.signals + 1)
    [claim] = await (await worker(database, "last")).take(5)
    assert claim.session_id == "other"


@pytest.mark.attack("J5")
async def test_j5_nobody_is_parked_for_having_been_beside_a_turn_that_kills(
    database: Database,
) -> None:
    """J5: of those that another crash would park, a worker has one at a time."""
    for number in range(4):
        await submit(database, f"s{number}", "k")
    for number in range(2):
        assert len(await (await worker(database, f"w{number}")).take(4)) == 4
        await undertaker(database).reap_dead_workers()
    await submit(database, "fresh", "k")
    first = await worker(database, "first")
    [suspect, fresh] = await first.take(4)
    assert (suspect.session_id, fresh.session_id) == ("s0", "fresh")
    assert await first.take(4) == []
    await undertaker(database).reap_dead_workers()
    states = await rows(database, "SELECT session_id, state FROM turns ORDER BY session_id")
    assert [each["session_id"] for each in states if each["state"] == "parked"] == ["s0"]
    assert [each["session_id"] for each in states if each["state"] == "ready"] == [
        "fresh", "s1", "s2", "s3",
    ]  # fmt: skip
    second = await worker(database, "second")
    while claims := await second.take(4):
        for claim in claims:
            await second.finish(claim, ANSWERED)
    assert len(await rows(database, "SELECT 1 FROM turns WHERE state = 'done'")) == 4


async def test_a_signal_that_comes_while_a_turn_parks_is_not_lost(database: Database) -> None:
    turn_id = await submit(database, "s", "k")
    claims = await worker(database)
    [claim] = await claims.take(1)
    await database.run(lambda c: wake_turn(c, turn_id))
    assert not await claims.park(claim, "approval", claim.signals)
    [claim] = await claims.take(1)
    assert await claims.park(claim, "approval", claim.signals)
    assert await claims.take(1) == []
    await database.run(lambda c: wake_turn(c, turn_id))
    assert [each.turn_id for each in await claims.take(1)] == [turn_id]


async def test_what_belongs_to_another_tenant_is_not_found(database: Database) -> None:
    turn_id = await submit(database, "s", "k", tenant="mine")
    theirs = Client(database, "theirs")
    for call in (
        theirs.session("s"),
        theirs.messages("s"),
        theirs.turns("s"),
        theirs.turn(turn_id),
        theirs.result(turn_id),
        theirs.submit("s", "prompt k", idempotency_key="k"),
    ):
        with pytest.raises(NotFoundError):
            await call


async def test_a_turn_that_needs_a_worker_is_refused_when_there_is_none(
    database: Database,
) -> None:
    client = Client(database, "t")
    await client.create_session("s", PLAN)
    with pytest.raises(NoWorkerError, match="amplifier worker"):
        await client.submit("s", "p", idempotency_key="k", needs_worker=True)
    await register(database, "w")
    assert (await client.submit("s", "p", idempotency_key="k", needs_worker=True)).state == "ready"


async def test_a_worker_that_was_given_up_registers_again(database: Database) -> None:
    worker = await register(database, "w")
    assert await worker.beat()
    assert await undertaker(database).reap_dead_workers() == ["w"]
    assert not await worker.beat()
    await worker.register()
    assert await worker.beat()
