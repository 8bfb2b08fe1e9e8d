"""A budget that several sessions spend from."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from decimal import Decimal
from pathlib import Path

import pytest

from amplifier import Agent, AgentError, Budget, OutputError
from amplifier.testing import replay
from end_to_end.shop import calls, script
from wire.server import WireServer
from wire.vendor import Answer, Stall
from wire.vendors.anthropic import Anthropic

PRICES = {"mock": {"input": 3.0, "output": 15.0}}
ECHO = {"module": "provider-mock", "config": {"mode": "echo"}}


async def test_sessions_of_one_budget_spend_from_it_until_it_is_used() -> None:
    budget = Budget(calls=3)
    agent = Agent(ECHO)

    endings = [(await agent.run("Hi", budget=budget)).stop_reason for _ in range(4)]

    assert endings == ["completed", "completed", "completed", "budget"]
    assert budget.used_calls == 3


async def test_many_sessions_at_once_never_spend_more_than_there_is() -> None:
    budget = Budget("0.01", prices=PRICES)
    agent = Agent({"module": "provider-mock", "config": {"mode": "echo", "delay_seconds": 0.01}})

    done = await asyncio.gather(*(agent.run("Hi", budget=budget) for _ in range(40)))

    reasons = {each.stop_reason for each in done}
    assert reasons == {"completed", "budget"}
    assert Decimal(0) < budget.used_usd <= Decimal("0.01")


async def test_the_accounts_of_closed_sessions_are_released() -> None:
    budget = Budget(calls=100)
    helper = Agent(ECHO, description="Helps.")
    lead = Agent(
        script(calls("task", agent="helper", prompt="Help."), "Done."), agents={"helper": helper}
    )

    for _ in range(3):
        await lead.run("Go.", budget=budget)

    assert len(budget.state["agents"]) == 1
    assert budget.used_calls == 9


async def test_a_stored_budget_continues_after_a_restart(tmp_path: Path) -> None:
    agent = Agent(ECHO)
    budget = Budget(calls=2)
    await agent.run("Hi", budget=budget, store=tmp_path)

    later = Budget(calls=2, state=budget.state)
    endings = [(await agent.run("Hi", budget=later)).stop_reason for _ in range(2)]

    assert endings == ["completed", "budget"]


def test_a_budget_without_a_limit_is_refused() -> None:
    with pytest.raises(AgentError, match="has no limit"):
        Budget(prices={"mock": {"input": 1.0}})


def test_nothing_is_used_before_the_first_call() -> None:
    budget = Budget("1.00")

    assert (budget.used_usd, budget.used_tokens, budget.used_calls) == (0, 0, 0)


async def test_a_used_up_budget_is_told_once_and_is_not_blamed_on_the_vendor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    budget = Budget(calls=1)
    agent = Agent(ECHO)
    await agent.run("Hi", budget=budget)
    caplog.clear()

    await agent.run("Hi", budget=budget)

    told = [each.getMessage() for each in caplog.records if each.name == "amplifier"]
    assert len(told) == 1
    assert "The turn ends: 1 of 1 model calls are used" in told[0]


async def test_an_answer_without_its_type_says_that_the_budget_was_used_up() -> None:
    budget = Budget(calls=1)
    agent = Agent(script({"text": "7"}), output=int)
    assert (await agent.run("How many?", budget=budget)).output == 7

    with pytest.raises(OutputError, match="ended as `budget`") as caught:
        await agent.run("How many?", budget=budget)

    assert caught.value.stop_reason == "budget"
    assert budget.used_calls == 1


async def test_a_turn_that_is_left_in_mid_stream_is_charged_what_its_vendor_reported(
    tmp_path: Path,
) -> None:
    vendor = Anthropic()
    words = Answer.of("alpha beta gamma", input=1_000)
    budget = Budget("1.00")

    async with WireServer(vendor, Stall(words, "beta"), words) as server:
        config = vendor.config(server.base_url)
        agent = Agent({"module": "provider-anthropic", "config": config})
        async with agent.session("c1", store=tmp_path, budget=budget) as session:
            async with aclosing(session.stream("Hi")) as events:
                await anext(events)
            used = budget.used_usd
            done = await session.run("Again?")

    # The worst case of a call with 32,000 tokens for its answer is 30 times as much.
    assert Decimal(0) < used < Decimal("0.01")
    assert done.cost_usd is not None
    assert budget.used_usd == used + done.cost_usd
    assert (await replay(tmp_path, "c1")).differences == []
