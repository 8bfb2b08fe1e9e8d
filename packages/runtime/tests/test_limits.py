"""Rate limits, budgets of trees and quotas of tenants that hold for all workers together."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from limits_stage import (
    CALL,
    PLAN,
    PRICES,
    USED,
    answer,
    claimed,
    claims,
    plan,
    status_call,
    worker,
)
from runtime_stage import Trace, rows

from amplifier_kit.calls.call_costs import NOTHING, Amount
from amplifier_runtime.children.children import Children
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, execute
from amplifier_runtime.database.store import Store
from amplifier_runtime.errors import Fenced
from amplifier_runtime.limits.budgets import Budgets, Hold, Purse, Shortage
from amplifier_runtime.limits.limits import Limits, admit
from amplifier_runtime.limits.rates import set_rate_limit
from amplifier_runtime.log.reader import LogReader
from amplifier_runtime.log.session_log import SessionLog
from amplifier_runtime.log.stored import read_log
from amplifier_runtime.signals.signals import Signals
from amplifier_runtime.signals.watcher import SignalWatch
from amplifier_runtime.turns.claims import Claim, Claims
from amplifier_runtime.worker.liveness import Liveness, Observer
from amplifier_runtime.worker.worker import Worker, WorkerSettings
from wire.server import WireServer
from wire.vendor import Answer, Stall
from wire.vendors.anthropic import Anthropic


async def test_calls_at_once_on_all_workers_never_hold_more_than_the_tree_has(
    url: str, database: Database
) -> None:
    turns = await claimed(database, *(f"s{n}" for n in range(8)))
    other = Database(url)
    await Store(database).create_session("t", "root", PLAN)
    await Budgets(database).set_tree("t", "root", usd=Decimal("3.5"))
    purse = Purse("tree:root", "")
    held = await asyncio.gather(
        *(
            Budgets(each).hold(claim, purse, "llm:1/1", CALL)
            for each, claim in zip([database, other] * 4, turns, strict=True)
        )
    )
    other.close()
    made = [each for each in held if isinstance(each, Hold)]
    waiting = [each for each in held if isinstance(each, Shortage)]
    assert len(made) == 3
    assert all(each.may_wait for each in waiting)
    status = await Budgets(database).status("t", "root")
    assert status is not None
    assert Decimal(status["held"]["usd"]) == 3


async def test_a_call_is_charged_once_and_what_it_did_not_use_is_given_back(
    database: Database,
) -> None:
    [claim] = await claimed(database, "s")
    budgets, purse = Budgets(database), Purse("tree:s", "")
    await budgets.set_tree("t", "s", usd=Decimal(2), calls=5)
    hold = await budgets.hold(claim, purse, "llm:1/1", CALL)
    assert await budgets.hold(claim, purse, "llm:1/1", CALL) == hold
    assert isinstance(hold, Hold)
    for _ in range(2):
        share = await budgets.settle(claim, hold, Amount(Decimal("0.5"), Decimal(10)))
        assert share == 0.25
    assert await budgets.status("t", "s") == {
        "used": {"usd": "0.5", "tokens": 10, "calls": 1},
        "held": {"usd": "0", "tokens": 0, "calls": 0},
        "limits": {"usd": "2", "tokens": None, "calls": 5},
    }


async def test_an_answer_is_shortened_rather_than_refused_and_then_refused(
    database: Database,
) -> None:
    [claim] = await claimed(database, "s")
    budgets, purse = Budgets(database), Purse("tree:s", "")
    await budgets.set_tree("t", "s", usd=Decimal("0.6"))
    hold = await budgets.hold(claim, purse, "llm:1/1", CALL)
    assert isinstance(hold, Hold)
    assert hold.output_tokens == 600
    await budgets.settle(claim, hold, None)
    refused = await budgets.hold(claim, purse, "llm:2/1", CALL)
    assert refused == Shortage("USD 0.6000 of 0.6000", may_wait=False)


async def test_what_a_dead_worker_had_set_aside_is_charged_and_leaks_not(
    database: Database,
) -> None:
    [lost] = await claimed(database, "s", worker_id="dead")
    budgets, purse = Budgets(database), Purse("tree:s", "")
    await budgets.set_tree("t", "s", usd=Decimal("1.5"))
    hold = await budgets.hold(lost, purse, "llm:1/1", CALL)
    assert isinstance(hold, Hold)
    waits = await budgets.hold(lost, purse, "llm:2/1", CALL)
    assert isinstance(waits, Shortage)
    assert waits.may_wait
    assert await Observer(database, dead_after_seconds=0).reap_dead_workers() == ["dead"]
    await Liveness(database, "u", code_version="1", concurrency=9).register()
    [claim] = await claims(database, "u").take(1)
    again = await budgets.hold(claim, purse, "llm:1/1", CALL)
    assert isinstance(again, Hold)
    assert again.output_tokens == 500
    for late in (budgets.settle(lost, hold, None), budgets.hold(lost, purse, "x", CALL)):
        with pytest.raises(Fenced):
            await late
    await budgets.settle(claim, again, NOTHING)
    status = await budgets.status("t", "s")
    assert status is not None
    assert (status["used"]["usd"], status["held"]["usd"]) == ("1", "0")


async def test_what_is_announced_of_a_budget_is_in_the_log(url: str, database: Database) -> None:
    client = Client(database, "t")
    await client.create_session("s", plan(*(status_call(n) for n in range(9))))
    await Budgets(database).set_tree("t", "s", calls=3)
    parts = [SessionLog(database), Limits(prices=PRICES), Children(look_seconds=0.05)]
    settings = WorkerSettings(url, poll_seconds=0.02, drain_seconds=0.5, parts=parts)
    async with Worker(settings):
        await answer(client, "s", {})

    log = await read_log(database, "t", "s")

    named = [each.data["name"] for each in log.written if each.kind == "event"]
    shown = [each.data["source"] for each in log.written if each.kind == "display"]
    assert named.count("budget:warning") == 1
    assert named.count("budget:exhausted") == 1
    assert shown.count("runtime-limits") == 2


async def test_a_turn_ends_with_a_readable_answer_when_its_budget_is_used_up(
    url: str, database: Database
) -> None:
    client = Client(database, "t")
    await client.create_session("s", plan(*(status_call(n) for n in range(9))))
    await Budgets(database).set_tree("t", "s", calls=3)
    async with worker(url):
        said = await answer(client, "s", {})
    assert "3 of 3 model calls are used" in said
    assert "Still open: Go on." in said
    status = await Budgets(database).status("t", "s")
    assert status is not None
    assert (status["used"]["calls"], status["held"]["calls"]) == (3, 0)
    assert Decimal(status["used"]["usd"]) == 3 * USED


async def test_a_provider_that_only_asks_others_is_not_counted_as_well(
    url: str, database: Database
) -> None:
    client = Client(database, "t")
    given = plan("Done.")
    failover = {"module": "provider-failover", "config": {"providers": ["steps"]}}
    await client.create_session("s", {**given, "providers": [failover, *given["providers"]]})
    await Budgets(database).set_tree("t", "s", calls=3)
    async with worker(url):
        assert await answer(client, "s", {}) == "Done."
    status = await Budgets(database).status("t", "s")
    assert status is not None
    assert status["used"]["calls"] == 1


@pytest.mark.slow
async def test_the_budget_in_the_plan_holds_for_the_whole_tree_and_replays_cost_nothing(
    url: str, database: Database, tmp_path: Path
) -> None:
    trace = Trace(tmp_path / "trace")
    budget = {"steps": 9, "prices": {"steps": {"input": 3, "output": 15}}}
    calls = [
        {"id": f"c{n}", "name": "task", "arguments": {"prompt": "Go on.", "agent": "digger"}}
        for n in range(3)
    ]
    digging = plan(*(status_call(n) for n in range(9)), trace=tmp_path / "trace")
    agents = {"digger": {"providers": digging["providers"]}}
    hooks = [{"module": "hooks-budget", "config": budget}]
    given = plan({"tool_calls": calls}, "{0}", agents=agents, hooks=hooks, trace=tmp_path / "trace")
    async with worker(url):
        said = await answer(Client(database, "t"), "root", given)
    assert "9 of 9 model calls are used" in said or "of this agent's share" in said
    status = await Budgets(database).status("t", "root")
    assert status is not None
    assert len(trace.lines("model")) == status["used"]["calls"] <= 9
    assert status["held"] == {"usd": "0", "tokens": 0, "calls": 0}
    assert Decimal(status["used"]["usd"]) == USED * status["used"]["calls"]


@pytest.mark.slow
async def test_a_tenants_quota_holds_for_all_its_sessions_and_for_nobody_else(
    url: str, database: Database
) -> None:
    mine, theirs = Client(database, "mine"), Client(database, "theirs")
    for client, session in ((mine, "a"), (mine, "b"), (theirs, "c")):
        await client.create_session(session, plan("Done."))
    await Budgets(database).set_quota("mine", "day", tokens=12_000)
    async with worker(url):
        said = [await answer(mine, session, {}) for session in ("a", "b")]
        more = [await answer(mine, session, {}, key=f"{n}") for n in range(3) for session in "ab"]
        assert await answer(theirs, "c", {}) == "Done."
    assert said[0] == "Done."
    assert "tokens of this period's quota are used" in more[-1]
    [account] = await rows(database, "SELECT * FROM accounts")
    assert account["token_used"] <= 12_000
    assert account["token_held"] == 0


async def test_a_turns_calls_wait_for_their_place_in_the_rate_of_the_tenants_own_account(
    url: str, database: Database
) -> None:
    await set_rate_limit(database, "steps", requests_per_minute=1)
    await set_rate_limit(database, "t/steps", requests_per_minute=6_000, tokens_per_minute=600_000)
    async with worker(url):
        said = await answer(Client(database, "t"), "s", plan(status_call(0), "Done."))
    assert said == "Done."
    levels = await rows(database, "SELECT bucket, filled_at, granted FROM rate_buckets")
    used = {row["bucket"] for row in levels if row["granted"] > 0}
    assert used == {"t/steps:requests", "t/steps:tokens"}


@pytest.mark.parametrize(
    ("step", "calls", "is_whole"),
    [
        ({"retry": "StreamError", "text": "Done."}, 2, True),
        ({"retry": "RateLimitError", "text": "Done."}, 1, False),
        ({"error": "StreamError"}, 1, True),
    ],
)
async def test_an_attempt_that_failed_is_charged_in_full_unless_it_came_to_nothing(
    url: str, database: Database, step: dict[str, Any], calls: int, is_whole: bool
) -> None:
    client = Client(database, "t")
    await client.create_session("s", plan(step))
    await Budgets(database).set_tree("t", "s", usd=Decimal(1))
    turn = await client.submit("s", "Go on.", idempotency_key="k")
    async with worker(url), asyncio.timeout(120):
        while not (await client.turn(turn.turn_id)).is_finished:  # noqa: ASYNC110 - a worker's
            await asyncio.sleep(0.02)
    holds = await rows(database, "SELECT usd, usd_charged FROM holds ORDER BY call_key")
    assert len(holds) == calls
    assert (holds[0]["usd"] == holds[0]["usd_charged"]) == is_whole


async def test_a_failure_before_the_model_began_costs_nothing_and_no_retry_is_made_without_room(
    url: str, database: Database
) -> None:
    client = Client(database, "t")
    for session, step in (("free", {"error": "AuthenticationError"}), ("dear", {"retry": "x"})):
        await client.create_session(session, plan(step))
        await Budgets(database).set_tree("t", session, calls=1)
        turn = await client.submit(session, "Go on.", idempotency_key="k")
        async with worker(url), asyncio.timeout(120):
            while not (await client.turn(turn.turn_id)).is_finished:  # noqa: ASYNC110 - a worker's
                await asyncio.sleep(0.02)
    free, dear = [await Budgets(database).status("t", each) for each in ("free", "dear")]
    assert free is not None
    assert dear is not None
    assert (free["used"]["usd"], free["held"]["calls"]) == ("0", 0)
    assert (dear["used"]["calls"], dear["held"]["calls"]) == (1, 0)
    [turn] = await client.turns("dear")
    assert "1 of 1 model calls are used" in (turn.answer or "")


async def test_a_model_without_a_price_is_not_called_when_money_is_limited(
    url: str, database: Database
) -> None:
    client = Client(database, "t")
    await client.create_session("s", plan("Done."))
    await Budgets(database).set_tree("t", "s", usd=Decimal(1))
    turn = await client.submit("s", "Go on.", idempotency_key="k")
    async with Worker(WorkerSettings(url, poll_seconds=0.02, parts=[Limits()])):
        async with asyncio.timeout(120):
            while not (await client.turn(turn.turn_id)).is_finished:  # noqa: ASYNC110 - a worker's
                await asyncio.sleep(0.02)
    found = await client.turn(turn.turn_id)
    assert found.state == "failed"
    assert "No price is known" in str(found.error)


async def test_no_more_turns_of_a_tenant_run_than_it_may_on_all_workers_together(
    url: str, database: Database
) -> None:
    """Workers of two versions, which see different turns, take at the same moment."""
    await Store(database).create_tenant("t", max_running=2)
    for number in range(12):
        await Store(database).create_session("t", f"s{number}", PLAN)
        turn = await Store(database).submit("t", f"s{number}", "p", idempotency_key="k")
        sql = "UPDATE turns SET code_version = :version WHERE turn_id = :turn"
        version = str(number % 4)
        await database.run(partial(execute, sql=sql, version=version, turn=turn.turn_id))
    workers: list[Claims] = []
    for version in "0123":
        await Liveness(database, f"w{version}", code_version=version, concurrency=9).register()
        workers.append(Claims(database, f"w{version}", [version]))
    taken = [
        claim for each in await asyncio.gather(*(w.take(3) for w in workers)) for claim in each
    ]
    # Which of them were claimed is a matter of luck; which of them run is not.
    admitted = [
        claim
        for claim, is_admitted in zip(
            taken, await asyncio.gather(*(run_admit(database, each) for each in taken)), strict=True
        )
        if is_admitted
    ]
    assert len(admitted) == 2
    waiting = next((each for each in taken if each not in admitted), None)
    await database.run(
        lambda c: execute(
            c, "UPDATE turns SET state = 'done' WHERE turn_id = :t", t=admitted[0].turn_id
        )
    )
    assert waiting is None or await run_admit(database, waiting)


async def run_admit(database: Database, claim: Claim) -> bool:
    return await database.run(lambda c: admit(c, claim))


@pytest.mark.slow
async def test_a_turn_beyond_the_tenants_quota_waits_and_runs_later(
    url: str, database: Database
) -> None:
    await Store(database).create_tenant("t", max_running=1)
    client = Client(database, "t")
    slow = plan({"text": "Done.", "delay_seconds": 0.1})
    async with worker(url):
        said = await asyncio.gather(*(answer(client, f"s{n}", slow) for n in range(3)))
    assert said == ["Done."] * 3


async def test_a_call_that_is_cancelled_in_mid_stream_is_charged_what_its_vendor_reported(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor = Anthropic()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-for-tests")
    async with (
        asyncio.timeout(120),
        WireServer(vendor, Stall(Answer.of("alpha beta gamma", input=1_000), "beta")) as server,
    ):
        client = Client(database, "t")
        log = SessionLog(database)
        signals = Signals(database, "t")
        config = vendor.config(server.base_url)
        del config["api_key"]
        provider = {"module": vendor.module_id, "config": config}
        await client.create_session("s", {**PLAN, "providers": [provider]})
        await Budgets(database).set_tree("t", "s", tokens=100_000)
        turn = await client.submit("s", "Hi.", idempotency_key="k")
        parts = [Limits(prices=PRICES), log, SignalWatch()]
        async with Worker(WorkerSettings(url, poll_seconds=0.02, parts=parts)):
            async with aclosing(LogReader(database).tail("t", "s")) as entries:
                async for entry in entries:
                    if entry.name == "llm:stream_block_delta":
                        break
            await signals.cancel(turn.turn_id, immediate=True)
            ended = await client.result(turn.turn_id)
        await log.aclose()
    status = await Budgets(database).status("t", "s")
    assert ended.state == "cancelled"
    assert status is not None
    assert 1_000 < status["used"]["tokens"] < 2_000
    assert status["held"]["tokens"] == 0
