"""Budgets of agents inside a tree, and what is said of calls that are charged to them."""

from __future__ import annotations

from decimal import Decimal
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

from amplifier_kit.calls.call_costs import NOTHING
from amplifier_runtime.children.children import Children
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.store import Store
from amplifier_runtime.limits.budgets import NANO, Budgets, Hold, Purse, Shortage
from amplifier_runtime.limits.limits import EVENTS, Limits
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun
from amplifier_runtime.worker.liveness import Liveness, Observer
from amplifier_runtime.worker.worker import Worker, WorkerSettings

TOLD = {"prices": {"steps": {"input": 3, "output": 15}}}
TOO_MUCH = {"input_tokens": 90_000, "output_tokens": 9_000, "total_tokens": 99_000}


class Ears(TurnPart):
    """Keeps what every turn says of its budget."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.lines: list[str] = []

    async def prepare(self, run: TurnRun) -> None:
        coordinator = run.session.coordinator
        coordinator.display_system = self
        for event in EVENTS:
            coordinator.hooks.register(event, self.hear)

    async def hear(self, event: str, data: dict[str, Any]) -> None:
        self.events.append((event, data))

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(message)


def tree_with(digging: dict[str, Any], trace: Path, **sections: Any) -> dict[str, Any]:
    """Return a plan whose agent digs with three below it, each of which would call for ever."""

    def tasks(agent: str, many: int) -> dict[str, Any]:
        arguments = {"prompt": "Go on.", "agent": agent}
        calls = [{"id": f"{agent}{n}", "name": "task", "arguments": arguments} for n in range(many)]
        return {"tool_calls": calls}

    endless = plan(*(status_call(n) for n in range(9)), trace=trace)["providers"]
    agents = {
        "digger": {
            "providers": plan(tasks("helper", 3), "{0}", trace=trace)["providers"],
            **digging,
        },
        "helper": {"providers": endless},
    }
    return plan(tasks("digger", 1), "{0}", agents=agents, trace=trace, **sections)


@pytest.mark.parametrize("limits", [{"steps": 5}, {"usd": "0.25"}, {"tokens": 30_000}], ids=str)
@pytest.mark.parametrize("above", [None, {"steps": 100}], ids=["alone", "below another"])
async def test_the_budget_of_a_child_holds_for_all_that_grows_from_it(
    url: str,
    database: Database,
    tmp_path: Path,
    limits: dict[str, Any],
    above: dict[str, Any] | None,
) -> None:
    hooks = [] if above is None else [{"module": "hooks-budget", "config": {**above, **TOLD}}]
    own = {"hooks": [{"module": "hooks-budget", "config": {**limits, **TOLD}}]}
    given = tree_with(own, tmp_path / "trace", hooks=hooks)
    async with worker(url):
        await answer(Client(database, "t"), "root", given)
    made = [line for line in Trace(tmp_path / "trace").lines("model") if " root " not in line]
    assert made
    if "steps" in limits:
        assert len(made) <= 5
    assert len(made) * USED <= Decimal(limits.get("usd", 1_000))
    assert len(made) * 3_200 <= limits.get("tokens", 1_000_000)
    [child] = await rows(database, "SELECT session_id FROM children WHERE depth = 1")
    status = await Budgets(database).status("t", child["session_id"])
    assert status is not None
    assert status["used"]["calls"] == len(made)
    assert status["held"] == {"usd": "0", "tokens": 0, "calls": 0}


async def test_a_child_with_the_budget_of_its_parent_has_no_account_of_its_own(
    url: str, database: Database, tmp_path: Path
) -> None:
    hooks = [{"module": "hooks-budget", "config": {"steps": 4}}]
    async with worker(url):
        await answer(Client(database, "t"), "root", tree_with({}, tmp_path / "trace", hooks=hooks))
    accounts = await rows(database, "SELECT account_id FROM accounts")
    assert [each["account_id"] for each in accounts] == ["tree:root"]


async def test_a_budget_is_known_by_what_its_hook_declares_whatever_the_module_is_called(
    url: str, database: Database
) -> None:
    hooks = [{"module": "hooks-terms", "config": {"steps": 2}}]
    given = plan(*(status_call(n) for n in range(9)), hooks=hooks)
    async with worker(url):
        said = await answer(Client(database, "t"), "s", given)
    assert "2 of 2 model calls are used" in said


async def test_a_limit_on_calls_alone_does_not_limit_how_long_an_answer_is(
    database: Database,
) -> None:
    [claim] = await claimed(database, "s")
    budgets, purse = Budgets(database), Purse("tree:s", "")
    await budgets.set_tree("t", "s", calls=9)
    unlimited = await budgets.hold(claim, purse, "llm:1/1", CALL)
    await budgets.set_tree("t", "s", calls=9, tokens=500)
    limited = await budgets.hold(claim, purse, "llm:2/1", CALL._replace(wanted=300))
    assert isinstance(unlimited, Hold)
    assert unlimited.output_tokens is None
    assert isinstance(limited, Shortage)
    await budgets.settle(claim, unlimited, NOTHING)
    limited = await budgets.hold(claim, purse, "llm:2/1", CALL._replace(wanted=300))
    assert isinstance(limited, Hold)
    assert limited.output_tokens == 300


async def test_what_a_dead_worker_had_set_aside_is_charged_to_all_in_its_line(
    database: Database,
) -> None:
    [lost] = await claimed(database, "s", worker_id="dead")
    budgets, purse = Budgets(database), Purse("tree:s", "", ("tree:s-child",))
    await budgets.set_tree("t", "s", calls=9)
    await Store(database).create_session("t", "s-child", PLAN)
    await budgets.set_tree("t", "s-child", usd=Decimal(1))
    assert isinstance(await budgets.hold(lost, purse, "llm:1/1", CALL), Hold)
    await Observer(database, dead_after_seconds=0).reap_dead_workers()
    await Liveness(database, "u", code_version="1", concurrency=9).register()
    [claim] = await claims(database, "u").take(1)
    refused = await budgets.hold(claim, purse, "llm:1/1", CALL)
    assert refused == Shortage("USD 1.0000 of 1.0000 of this agent's share", may_wait=False)
    for session in ("s", "s-child"):
        status = await budgets.status("t", session)
        assert status is not None
        assert (status["used"]["usd"], status["held"]["usd"]) == ("1", "0")


async def test_nothing_is_given_back_when_the_plan_says_that_only_the_worst_case_counts(
    url: str, database: Database
) -> None:
    hooks = [{"module": "hooks-budget", "config": {"usd": 1, "settle": "worst_case", **TOLD}}]
    async with worker(url):
        await answer(Client(database, "t"), "s", plan(status_call(0), "Done.", hooks=hooks))
    holds = await rows(database, "SELECT * FROM holds")
    assert len(holds) == 2
    for hold in holds:
        assert hold["usd_charged"] == hold["usd"] > USED * NANO
        assert hold["tokens_charged"] == hold["tokens"]


@pytest.mark.parametrize(
    ("usage", "event", "words"),
    [
        (None, "budget:usage_doubted", "no usage that can be true"),
        (TOO_MUCH, "budget:overrun", "cost more than its worst case"),
    ],
    ids=["doubted", "overrun"],
)
async def test_a_report_that_cannot_be_true_or_exceeds_the_worst_case_is_charged_and_announced(
    url: str, database: Database, usage: dict[str, int] | None, event: str, words: str
) -> None:
    client, ears = Client(database, "t"), Ears()
    given = plan("Done.")
    given["providers"][0]["config"]["usage"] = usage
    await client.create_session("s", given)
    await Budgets(database).set_tree("t", "s", usd=Decimal(10))
    async with Worker(WorkerSettings(url, poll_seconds=0.02, parts=[Limits(prices=PRICES), ears])):
        assert await answer(client, "s", {}) == "Done."
    [(told, facts)] = ears.events
    assert told == event
    assert [words in line for line in ears.lines] == [True]
    [hold] = await rows(database, "SELECT * FROM holds")
    assert Decimal(facts["held"]["usd"]) * NANO == hold["usd"]
    charged = facts.get("charged", facts["held"])
    assert Decimal(charged["usd"]) * NANO == hold["usd_charged"]
    assert charged["tokens"] == str(hold["tokens_charged"])


async def test_a_model_without_a_price_is_called_when_only_tokens_and_calls_are_limited(
    url: str, database: Database
) -> None:
    client, ears = Client(database, "t"), Ears()
    await client.create_session("s", plan("Done."))
    await Budgets(database).set_tree("t", "s", tokens=50_000, calls=2)
    await Budgets(database).set_quota("t", "day", tokens=50_000)
    async with Worker(WorkerSettings(url, poll_seconds=0.02, parts=[Limits(), ears])):
        assert await answer(client, "s", {}) == "Done."
    status = await Budgets(database).status("t", "s")
    assert status is not None
    assert status["used"] == {"usd": "0", "tokens": 3_200, "calls": 1}
    assert ears.events == []


async def test_a_model_without_a_price_that_is_allowed_is_called_and_said_once(
    url: str, database: Database
) -> None:
    client, ears = Client(database, "t"), Ears()
    hooks = [{"module": "hooks-budget", "config": {"unknown_price": "allow"}}]
    await client.create_session("s", plan(status_call(0), "Done.", hooks=hooks))
    await Budgets(database).set_tree("t", "s", usd=Decimal(1))
    parts = [Limits(), Children(look_seconds=0.05), ears]
    async with Worker(WorkerSettings(url, poll_seconds=0.02, parts=parts)):
        assert await answer(client, "s", {}) == "Done."
    [(event, facts)] = ears.events
    assert event == "budget:price_unknown"
    assert (facts["provider"], facts["model"], facts["refused"]) == ("steps", "steps", False)
    assert ["its calls count as free" in line for line in ears.lines] == [True]
