"""`session.resume`: a child that has ended continues in its own log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.live import LiveSession, open_live
from amplifier_foundation.replay import replay
from amplifier_foundation.store import SessionStore
from amplifier_journal.readings.requests import requests_in
from amplifier_journal.readings.spending import spending

Plan = Callable[..., dict[str, Any]]


async def delegate(live: LiveSession, **given: Any) -> Any:
    """Call the tool as a loop does; returns its output, or the message of its error."""
    async with asyncio.timeout(120):
        result = await live.session.coordinator.get_mounted("tools")["delegate"].execute(given)
    return result.output if result.success else result.error["message"]


PRICED = {
    "module": "provider-mock",
    "config": {
        "script": [{"text": "Well.", "usage": {"cost_usd": "0.25"}}],
        "after_script": "repeat",
    },
}


@pytest.mark.parametrize("context", ["context-simple", "context-persistent"])
@pytest.mark.parametrize("again", [False, True], ids=["same process", "parent resumed"])
async def test_a_child_continues_with_all_that_it_knew(
    context: str, again: bool, store: SessionStore, project: Path, plan: Plan
) -> None:
    session = {"orchestrator": {"module": "loop-basic"}, "context": context}
    agents = {"helper": {"system": {"instruction": "Help."}}}
    made_of = plan(session=session, agents=agents)
    more: dict[str, Any] = {}
    async with open_live(made_of, store=store, project=project, session_id="root") as live:
        made = await delegate(live, agent="helper", instruction="One.")
        if not again:
            more = await delegate(live, session_id=made["session_id"], instruction="Two.")
    if again:
        async with open_live(
            made_of, store=store, project=project, session_id="root", resume=True
        ) as live:
            more = await delegate(live, session_id=made["session_id"], instruction="Two.")

    assert more["session_id"] == made["session_id"]
    assert "Two." in more["output"]
    reader = store.read(made["session_id"])
    last = requests_in(reader.records())[-1]
    contents = [each["content"] for each in last.messages]
    assert contents[:2] == ["Help.", "One."]
    assert contents[-1] == "Two."
    assert len(contents) == 4
    assert reader.metadata["turns"] == 2
    openings = [each.data for each in reader.records() if each.kind == "session.opened"]
    assert [each["resumed"] for each in openings] == [False, True]


async def test_a_resumed_child_and_its_parent_replay_without_a_difference(
    store: SessionStore, project: Path, plan: Plan
) -> None:
    calls: list[dict[str, Any]] = [
        {"agent": "helper", "instruction": "One.", "sub_session_id": "a-child"},
        {"session_id": "a-child", "instruction": "Two."},
    ]
    asked = [{"tool_calls": [{"name": "delegate", "arguments": each}]} for each in calls]
    model = {"module": "provider-mock", "config": {"script": [*asked, "Done."]}}
    echo = {"module": "provider-mock", "config": {"script": ["Well."], "after_script": "repeat"}}
    made_of = plan(providers=[model], agents={"helper": {"providers": [echo]}})
    async with open_live(made_of, store=store, project=project, session_id="root") as live:
        await live.execute("Begin.")

    assert store.read("a-child").metadata["turns"] == 2
    for session_id in ("root", "a-child"):
        assert (await replay(store.read(session_id))).differences == []


async def test_what_both_runs_of_a_child_cost_counts_once(
    store: SessionStore, project: Path, plan: Plan
) -> None:
    made_of = plan(providers=[PRICED])
    async with open_live(made_of, store=store, project=project, session_id="root") as live:
        made = await delegate(live, instruction="One.")
        first = live.cost_usd
        await delegate(live, session_id=made["session_id"], instruction="Two.")
        both = live.cost_usd
    async with open_live(
        made_of, store=store, project=project, session_id="root", resume=True
    ) as live:
        reopened = live.cost_usd

    assert first == Decimal("0.25")
    assert both == Decimal("0.50")
    assert reopened == both
    assert Decimal(store.read(made["session_id"]).metadata["cost_usd"]) == both
    child = {made["session_id"]: list(store.read(made["session_id"]).records())}
    assert spending(store.read("root").records(), child).cost_usd == both


async def test_only_a_child_of_this_session_is_found(
    store: SessionStore, project: Path, plan: Plan
) -> None:
    async with open_live(plan(), store=store, project=project, session_id="other") as live:
        theirs = await delegate(live, instruction="Secret.")
    async with open_live(plan(), store=store, project=project, session_id="root") as live:
        answers = {
            each: await delegate(live, session_id=each, instruction="Tell me.")
            for each in (theirs["session_id"], "other", "root", "nothing", "../other", "")
        }

    for session_id, said in answers.items():
        assert said == f"FileNotFoundError: This session has no child '{session_id}'."


async def test_a_resumed_child_is_inside_the_budget_and_the_limits(
    store: SessionStore, project: Path, plan: Plan
) -> None:
    tools = [{"module": "tool-delegate"}, {"module": "tool-task", "config": {"max_total": 1}}]
    hooks = [{"module": "hooks-budget", "config": {"steps": 2, "final_answer_reserve": 0}}]
    made_of = plan(tools=tools, hooks=hooks)
    async with open_live(made_of, store=store, project=project, session_id="root") as live:
        made = await delegate(live, instruction="One.")
        await delegate(live, session_id=made["session_id"], instruction="Two.")
        status = live.session.coordinator.get_capability("budget.status")()
        refused = await delegate(live, session_id=made["session_id"], instruction="Three.")

    assert status["used"]["steps"] == "2"
    assert status["agents"] == 2
    assert refused["status"] == "incomplete"
    assert "No further model call" in refused["output"]


async def test_a_budget_is_taken_up_again_whatever_the_children_were_called(
    store: SessionStore, project: Path, plan: Plan
) -> None:
    """Ids of published tools sort before that of their parent, and so the budget's state does."""
    hooks = [{"module": "hooks-budget", "config": {"steps": 9}}]
    made_of = plan(hooks=hooks)
    async with open_live(made_of, store=store, project=project, session_id="root") as live:
        made = await delegate(live, instruction="One.")
        await live.execute("Hello.")
    async with open_live(
        made_of, store=store, project=project, session_id="root", resume=True
    ) as live:
        await delegate(live, session_id=made["session_id"], instruction="Two.")
        status = live.session.coordinator.get_capability("budget.status")()

    assert made["session_id"] < "root"
    assert status["used"]["steps"] == "3"
    assert status["agents"] == 2


@pytest.mark.parametrize("agents", [{}, {"helper": {"system": {"instruction": "Another."}}}])
async def test_a_child_of_an_agent_that_the_plan_does_not_have_continues_as_it_was(
    agents: dict[str, Any], store: SessionStore, project: Path, plan: Plan
) -> None:
    script = {"script": ["Yes."], "after_script": "repeat"}
    helper = {
        "system": {"instruction": "Help."},
        "providers": [{"module": "provider-mock", "config": script}],
        "tools": [{"module": "tool-hand", "config": {"api_key": "canary0f1e2d3c4b5a6978"}}],
        "note": project,
    }
    made_of = plan(agents=agents, providers=[PRICED])
    async with open_live(made_of, store=store, project=project, session_id="root") as live:
        spawn = live.session.coordinator.get_capability("session.spawn")
        made = await spawn(
            agent_name="helper", instruction="One.", agent_configs={"helper": helper}
        )
        more = await delegate(live, session_id=made["session_id"], instruction="Two.")

    assert more["session_id"] == made["session_id"]
    assert more["output"] == made["output"] == "Yes."
    stored = store.read(made["session_id"]).metadata["spawned"]["agent"]
    assert stored["system"] == {"instruction": "Help."}
    assert "canary" not in str(stored)


async def test_the_configuration_of_an_agent_of_the_plan_is_not_stored_again(
    store: SessionStore, project: Path, plan: Plan
) -> None:
    made_of = plan(agents={"helper": {"system": {"instruction": "Help."}}})
    async with open_live(made_of, store=store, project=project, session_id="root") as live:
        made = await delegate(live, agent="helper", instruction="One.")
    assert store.read(made["session_id"]).metadata["spawned"].get("agent") is None
