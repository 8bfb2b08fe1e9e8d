"""Tests of the tree: children draw from one ledger, and none is born without a lease."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ChatRequest, Message, llm_errors
from amplifier_core.message_models import Usage
from amplifier_core.testing import wait_for

HELLO = ChatRequest(messages=[Message(role="user", content="hello")])


def little(usage: Usage) -> Usage:
    return Usage(input_tokens=100, output_tokens=10, total_tokens=110)


async def test_a_child_draws_from_the_budget_of_its_parent(build: Any) -> None:
    harness = await build(usd=1)

    child = await harness.child("child")
    await child.session.execute("hello")

    assert child.ledger is harness.ledger
    assert harness.spent == child.ledger.accounts["child"].used.usd == harness.vendor.billed


async def test_a_child_without_the_module_is_charged_to_its_parent(build: Any) -> None:
    harness = await build(usd=1)

    child = await harness.child("child", {"hooks": []})
    await child.session.execute("hello")

    assert harness.spent == harness.vendor.billed > 0
    assert "child" not in harness.ledger.accounts


async def test_a_grandchild_is_bound_by_every_limit_above_it(build: Any) -> None:
    harness = await build(["dig"], usd=1, child_share="0.1", final_answer_reserve=0)

    child = await harness.child("child")
    grandchild = await child.child("grandchild")
    await grandchild.session.execute("hello")

    accounts = harness.ledger.accounts
    assert accounts["grandchild"].depth == 2
    assert 0 < harness.vendor.billed <= Decimal("0.01")
    assert accounts["child"].used == accounts["grandchild"].used == accounts["root"].used


async def test_a_child_can_narrow_its_share_and_never_widen_it(build: Any) -> None:
    harness = await build(usd=1)

    def hooks(usd: str) -> dict[str, Any]:
        prices = {"vendor": {"input": 3, "output": 15}}
        return {"hooks": [{"module": "hooks-budget", "config": {"usd": usd, "prices": prices}}]}

    await harness.child("narrow", hooks("0.01"))
    await harness.child("wide", hooks("100"))

    assert harness.ledger.accounts["narrow"].limit.usd == Decimal("0.01")
    assert harness.ledger.accounts["wide"].limit.usd < Decimal("0.5")


def narrowed(**budget: Any) -> dict[str, Any]:
    """Return an overlay with a budget of the child's own."""
    return {"hooks": [{"module": "hooks-budget", "config": budget, "required": True}]}


async def test_a_childs_dollars_hold_where_the_root_limits_none(build: Any) -> None:
    harness = await build(["dig"], steps=50, prices={})
    harness.vendor.bills_only_what_is_seen = True
    prices = {"vendor": {"input": 3, "output": 15}}

    child = await harness.child("child", narrowed(usd="0.1", prices=prices))
    grandchild = await child.child("grandchild", {"hooks": []})
    await child.session.execute("dig for gold")
    await grandchild.session.execute("dig for silver")

    used = harness.ledger.accounts["child"].used.usd
    assert 0 < harness.vendor.billed <= used <= Decimal("0.1")
    assert harness.spent == used


async def test_a_childs_tokens_hold_where_the_root_limits_none(build: Any) -> None:
    harness = await build("A long answer.", steps=50)

    child = await harness.child("child", narrowed(tokens=3_000))
    for _ in range(3):
        await child.session.execute("dig for gold")

    used = sum(harness.vendor.true_usage(each).total_tokens for each in harness.vendor.requests)
    assert 0 < used <= 3_000


@pytest.mark.parametrize("way", ["refuse", "allow"])
async def test_a_model_without_a_price_is_up_to_the_child_that_limits_dollars(
    build: Any, way: str
) -> None:
    harness = await build(steps=50, prices={}, unknown_price="allow")
    child = await harness.child("child", narrowed(usd="0.1", unknown_price=way))

    await harness.provider.complete(HELLO)
    if way == "refuse":
        with pytest.raises(llm_errors.ConfigurationError, match="No price is known"):
            await child.provider.complete(HELLO)
    else:
        await child.provider.complete(HELLO)

    assert len(harness.vendor.requests) == (1 if way == "refuse" else 2)
    assert harness.told("budget:price_unknown") == []
    assert child.told("budget:price_unknown")[0]["refused"] is (way == "refuse")


async def test_a_childs_prices_and_trust_cannot_make_its_calls_cheaper(build: Any) -> None:
    harness = await build(usd=1, settle="worst_case")
    harness.vendor.report = little
    free = {"vendor/big": {"input": 0, "output": 0}}

    child = await harness.child("child", narrowed(usd=1, prices=free, settle="usage"))
    await child.provider.complete(HELLO)

    assert harness.spent >= harness.vendor.billed > 0


async def test_a_child_can_ask_for_its_worst_case_to_be_charged(build: Any) -> None:
    harness = await build(usd=1)
    harness.vendor.report = little

    child = await harness.child("child", narrowed(settle="worst_case"))
    await child.provider.complete(HELLO)

    assert harness.spent >= harness.vendor.billed > 0


async def test_a_lease_is_refused_beyond_the_depth(build: Any) -> None:
    harness = await build(usd=1, depth=1)
    child = await harness.child("child")

    assert await harness.coordinator.get_capability("budget.lease")("other", 1) is None
    reason = await child.coordinator.get_capability("budget.lease")("grandchild", 2)

    assert reason == "agents may be nested 1 deep"
    assert child.told("budget:lease_refused")[0]["child_session_id"] == "grandchild"
    assert any("No agent was started" in line for line in harness.screen.lines)


async def test_a_lease_is_refused_beyond_the_breadth_and_counts_once(build: Any) -> None:
    harness = await build(usd=1, breadth=2)
    lease = harness.coordinator.get_capability("budget.lease")

    assert [await lease(name) for name in ("a", "b", "a")] == [None, None, None]
    assert await lease("c") == "an agent may have 2 children"


async def test_a_lease_is_refused_when_nothing_is_left(build: Any) -> None:
    harness = await build(steps=2)
    await harness.session.execute("hello")

    refusal = await harness.coordinator.get_capability("budget.lease")("late")

    assert refusal == "the budget in steps is used up"


async def test_a_child_that_was_spawned_without_a_lease_calls_no_model(build: Any) -> None:
    harness = await build(usd=1, breadth=0)

    child = await harness.child("child")
    answer = await child.session.execute("conquer the world")

    assert harness.vendor.requests == []
    assert "an agent may have 0 children" in answer
    assert "conquer the world" in answer
    assert await child.coordinator.get_capability("budget.lease")("grandchild") is not None
    grandchild = await child.child("grandchild")
    assert "its parent has none" in await grandchild.session.execute("help")
    assert harness.vendor.requests == []


async def test_a_call_waits_for_what_others_give_back(build: Any) -> None:
    harness = await build(usd="0.15")
    harness.vendor.report = little
    harness.vendor.gate.clear()

    async with asyncio.timeout(120):
        calls = [asyncio.create_task(harness.provider.complete(HELLO)) for _ in range(4)]
        assert await wait_for(lambda: len(harness.vendor.requests) == 2, timeout=120)
        under_way = len(harness.vendor.requests)
        harness.vendor.gate.set()
        answers = await asyncio.gather(*calls)

    assert under_way == 2
    assert [each.content[0].text for each in answers] == ["Done."] * 4
    assert harness.told("budget:exhausted") == []


async def test_sessions_in_other_threads_wait_and_pay_too(build: Any) -> None:
    harness = await build(usd="0.15")
    harness.vendor.report = little

    def in_thread() -> str:
        return asyncio.run(harness.provider.complete(HELLO)).content[0].text

    async with asyncio.timeout(120):
        answers = await asyncio.gather(*(asyncio.to_thread(in_thread) for _ in range(8)))

    assert answers == ["Done."] * 8
    assert harness.ledger.root.used.steps == 8
    assert harness.ledger.root.held.usd == 0


async def test_members_of_a_failover_are_charged_and_the_failover_is_not(build: Any) -> None:
    harness = await build(usd=1)
    mount = await harness.session.loader.load("provider-failover", {"providers": ["vendor"]})
    await mount(harness.coordinator)

    await harness.coordinator.get("providers", "failover").complete(HELLO)

    assert harness.spent == harness.vendor.billed > 0
    assert harness.ledger.root.used.steps == 1


async def test_a_resumed_tree_goes_on_where_it_was(build: Any) -> None:
    harness = await build(usd=1, breadth=1)
    child = await harness.child("child")
    await child.session.execute("hello")
    state = json.loads(json.dumps(harness.coordinator.session_state))

    later = await build(usd=1, breadth=1, state=state)

    assert later.spent == harness.spent > 0
    assert later.ledger.accounts["child"].used == harness.ledger.accounts["child"].used
    assert await later.coordinator.get_capability("budget.lease")("second") is not None


async def test_what_was_under_way_at_a_crash_counts_as_used(build: Any) -> None:
    harness = await build(usd=1)
    states: list[Any] = []

    def crash(_: ChatRequest) -> str:
        states.append(json.loads(json.dumps(harness.coordinator.session_state)))
        return "Done."

    harness.vendor.answer = crash
    await harness.session.execute("hello")

    later = await build(usd=1, state=states[0])

    assert later.spent >= harness.vendor.billed


async def test_the_status_is_there_for_who_shows_it(build: Any) -> None:
    harness = await build(usd=1, tokens=100_000)
    await harness.child("child")
    await harness.session.execute("hello")

    status = harness.coordinator.get_capability("budget.status")()

    assert Decimal(status["used"]["usd"]) == harness.vendor.billed
    assert status["limits"]["usd"] == "1"
    assert status["agents"] == 2
    assert 0 < status["share"] < 1
    json.dumps(status)


async def test_a_session_that_ends_leaves_nothing_behind(build: Any) -> None:
    harness = await build(usd=1)

    await harness.session.cleanup()

    assert harness.coordinator.interposers == []
    assert not harness.coordinator.hooks.has_handlers("provider:retry")


async def test_an_unknown_key_stops_the_mount_and_is_named() -> None:
    hook = {"module": "hooks-budget", "config": {"dollars": 3}, "required": True}
    session = AmplifierSession(
        {
            "session": {"orchestrator": "loop-basic", "context": "context-simple"},
            "hooks": [hook],
        }
    )

    with pytest.raises(Exception, match="dollars"):
        await session.initialize()
