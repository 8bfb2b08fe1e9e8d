"""Two dollars over a tree of fifty agents that want more: never a cent above, always an answer."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from amplifier_core import ChatRequest, llm_errors
from amplifier_core.message_models import Usage

LIMIT = Decimal(2)
AGENTS = 50
# `make budget-trees` runs a thousand.
TREES = int(os.environ.get("TREES", "100"))


def lie(chance: random.Random) -> Callable[[Usage], Usage | None]:
    """Return a report that is missing, empty, or some share of the truth."""
    share = chance.choice([None, 0.0, chance.random()])

    def report(usage: Usage) -> Usage | None:
        if share is None:
            return None
        asked, given = int(usage.input_tokens * share), int(usage.output_tokens * share)
        return Usage(
            input_tokens=asked, output_tokens=given, total_tokens=asked + given, cost_usd=Decimal(0)
        )

    return report


def insatiable(chance: random.Random) -> Callable[[ChatRequest], Any]:
    """Return answers that always call for more, and now and then break off or are refused."""

    def answer(request: ChatRequest) -> Any:
        luck = chance.random()
        if luck < 0.03:
            return llm_errors.StreamError("broke off")
        return llm_errors.RateLimitError("slow down") if luck < 0.06 else ["dig"]

    return answer


async def run_agent(
    harness: Any, number: int, children: dict[int, list[int]], answers: Any
) -> None:
    """Spawn all children at once, and work beside them until the money ends."""
    lease = harness.coordinator.get_capability("budget.lease")
    spawned: list[asyncio.Task[None]] = []
    for each in children.get(number, []):
        refusal = await lease(f"agent-{each}")
        if refusal is None:
            child = await harness.child(f"agent-{each}", vendor=answers["vendors"][each])
            spawned.append(asyncio.create_task(run_agent(child, each, children, answers)))
        else:
            answers["refused"].append(refusal)
    try:
        answers["texts"].append(await harness.session.execute(f"task {number}: dig for gold"))
    except llm_errors.LLMError as error:
        answers["failed"].append(error)
    await asyncio.gather(*spawned)
    await harness.session.cleanup()


async def run_tree(build: Any, seed: int) -> None:
    """Run one tree of a random shape and hold the vendor's bills against the limit."""
    chance = random.Random(seed)
    # Whoever does not trust a provider at all says so; then it may bill what nobody can see.
    is_trusted = chance.random() < 0.5
    harness = await build(
        usd=LIMIT,
        child_share=str(round(chance.uniform(0.1, 1), 2)),
        final_answer_reserve=chance.choice(["0", "0.05"]),
        settle="usage" if is_trusted else "worst_case",
    )
    vendors = [type(harness.vendor)() for _ in range(AGENTS)]
    for vendor in vendors:
        vendor.answer, vendor.pace = insatiable(chance), chance.randrange(5)
        vendor.max_output_tokens = chance.choice([256, 512, 4_096])
    liar = vendors[chance.randrange(10)]
    liar.report, liar.bills_only_what_is_seen, liar.pace = lie(chance), is_trusted, 0
    await harness.coordinator.mount("providers", vendors[0], name="vendor")
    children: dict[int, list[int]] = {}
    for number in range(1, AGENTS):
        children.setdefault(chance.randrange(number), []).append(number)
    answers: dict[str, Any] = {"vendors": vendors, "texts": [], "failed": [], "refused": []}

    async with asyncio.timeout(120):
        await run_agent(harness, 0, children, answers)

    billed = sum((vendor.billed for vendor in vendors), Decimal(0))
    assert billed <= LIMIT, f"seed {seed}: {billed}"
    assert billed <= harness.spent <= LIMIT, f"seed {seed}: {billed} billed, {harness.spent} booked"
    assert harness.ledger.root.held.usd == 0
    assert all("Here is what I have." in text or "Still open" in text for text in answers["texts"])
    assert answers["texts"]


@pytest.mark.parametrize("seed", range(10))
async def test_a_tree_of_fifty_agents_never_spends_more_than_its_budget(
    build: Any, seed: int
) -> None:
    await run_tree(build, seed)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(TREES // 100))
async def test_many_trees_never_spend_more_than_their_budget(build: Any, hundred: int) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        await run_tree(build, seed)
