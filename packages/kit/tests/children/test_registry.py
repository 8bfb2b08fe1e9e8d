"""One object for the children of a session, whoever starts them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.models import HookResult
from amplifier_kit.children.config import ChildrenConfig
from amplifier_kit.children.orders import ChildOrder
from amplifier_kit.children.registry import children_of, open_children
from amplifier_kit.children.tasks import PREPARE, TOLD_DEPTH, RefusedError, Tasks

PLAN: dict[str, Any] = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock", "config": {"mode": "echo"}}],
    "agents": {"poet": {}, "clerk": {}},
}


def children_in(session: AmplifierSession) -> Tasks:
    children = children_of(session.coordinator)
    assert isinstance(children, Tasks)
    return children


async def outcome_of(children: Tasks, order: ChildOrder) -> Any:
    async with asyncio.timeout(120):
        child = await children.launch(order)
        await child.watch
    return child.outcome


async def test_without_a_tool_for_tasks_children_have_the_default_limits() -> None:
    async with AmplifierSession(PLAN) as session:
        children = children_in(session)

        assert children.config == ChildrenConfig()
        assert children_of(session.coordinator) is children


async def test_the_limits_of_a_tool_apply_to_whoever_starts_children() -> None:
    plan = {**PLAN, "tools": [{"module": "tool-task", "config": {"max_total": 1}}]}
    async with AmplifierSession(plan) as session:
        task = session.coordinator.get_mounted("tools")["task"]
        assert (await task.execute({"prompt": "Hello."})).success

        with pytest.raises(RefusedError, match="All 1 agents were started"):
            await children_in(session).launch(ChildOrder("Again.", 5))


async def test_who_takes_the_place_of_the_children_counts_on() -> None:
    async with AmplifierSession(PLAN) as session:
        await outcome_of(children_in(session), ChildOrder("One.", 5))
        children, close = open_children(session.coordinator, ChildrenConfig(max_total=1))

        with pytest.raises(RefusedError, match="All 1 agents were started"):
            await children.launch(ChildOrder("Two.", 5))
        await close()


async def test_a_child_with_a_whole_plan_has_only_that_and_its_parents_guards() -> None:
    seen: list[Any] = []
    denied: list[str] = []
    plan: dict[str, Any] = {**PLAN, "agents": {"poet": {}}}
    async with AmplifierSession(PLAN, session_id="root") as session:
        hooks = session.coordinator.hooks

        async def deny(event: str, data: dict[str, Any]) -> HookResult:
            denied.append(data["session_id"])
            return HookResult(action="deny", reason="no models today")

        hooks.register("provider:request", deny, on_error="deny")
        session.coordinator.register_capability(PREPARE, seen.append)
        order = ChildOrder("Hello.", 5, plan=plan, session_id="a-child", told_depth=0)
        await outcome_of(children_in(session), order)

        assert denied == ["a-child"]
        assert seen[0].session_id == "a-child"
        assert seen[0].parent_id == "root"
        assert seen[0].config == plan
        assert seen[0].get_capability(TOLD_DEPTH) == 0
        assert children_of(seen[0]).depth == 1


async def test_a_child_is_cancelled_with_its_parent_and_let_go_when_it_has_ended() -> None:
    async with AmplifierSession(PLAN) as session:
        children, token = children_in(session), session.coordinator.cancellation
        outcome = await outcome_of(children, ChildOrder("Hello.", 5, plan=PLAN))
        assert outcome.stop_reason == "completed"

        token.request_graceful()
        assert (await outcome_of(children, ChildOrder("More.", 5, plan=PLAN))).stop_reason == (
            "cancelled"
        )


async def test_a_child_begins_with_its_instruction_and_the_history_that_it_is_given() -> None:
    seen: list[Any] = []
    async with AmplifierSession(PLAN) as session:
        session.coordinator.register_capability(PREPARE, seen.append)
        given = {"role": "user", "content": "Earlier."}
        order = ChildOrder("Now.", 5, instruction="Rhyme.", history=[given])
        child = await children_in(session).launch(order)
        messages: list[Any] = []

        async def note(event: str, data: dict[str, Any]) -> None:
            messages.extend(await seen[0].get("context").get_messages())

        seen[0].hooks.register("orchestrator:complete", note)
        async with asyncio.timeout(120):
            await child.watch

        contents = [each["content"] for each in messages[:2]]
        assert contents == ["Rhyme.", "Earlier."]
        assert child.ending["status"] == "success"


async def test_a_child_that_is_resumed_is_not_counted_again_and_runs_once_at_a_time() -> None:
    async with AmplifierSession(PLAN) as session:
        children, close = open_children(session.coordinator, ChildrenConfig(max_total=1))
        assert isinstance(children, Tasks)
        await outcome_of(children, ChildOrder("One.", 5, session_id="kept", plan=PLAN))
        again = ChildOrder("Two.", 5, session_id="kept", plan=PLAN, is_resumed=True)
        running = await children.launch(again)

        with pytest.raises(RefusedError, match="still at work"):
            await children.launch(again)
        async with asyncio.timeout(120):
            await running.watch
        await close()
