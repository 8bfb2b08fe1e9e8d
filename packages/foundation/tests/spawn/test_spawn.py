"""`session.spawn`: children of published modules, under the limits and the guards of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.models import HookResult
from amplifier_foundation.live import LiveSession, open_live
from amplifier_foundation.replay import replay
from amplifier_foundation.store import SessionStore
from amplifier_journal.readings.requests import requests_in

Plan = Callable[..., dict[str, Any]]
Open = Callable[[dict[str, Any]], AbstractAsyncContextManager[LiveSession]]


@pytest.fixture(name="open_plan")
def open_plan_fixture(store: SessionStore, project: Path) -> Open:
    @asynccontextmanager
    async def enter(plan: dict[str, Any]) -> AsyncGenerator[LiveSession]:
        async with open_live(plan, store=store, project=project, session_id="root") as live:
            yield live

    return enter


async def delegate(live: LiveSession, **given: Any) -> Any:
    """Call the tool as a loop does; returns its output, or the message of its error."""
    async with asyncio.timeout(120):
        result = await live.session.coordinator.get_mounted("tools")["delegate"].execute(given)
    return result.output if result.success else result.error["message"]


def opened(store: SessionStore, session_id: str) -> dict[str, Any]:
    return next(
        each.data for each in store.read(session_id).records() if each.kind == "session.opened"
    )


def modules(plan: dict[str, Any], section: str) -> list[str]:
    return [each["module"] for each in plan.get(section) or ()]


async def test_an_agent_does_a_task_in_a_session_of_its_own(
    store: SessionStore, plan: Plan, open_plan: Open
) -> None:
    agents = {"helper": {"system": {"instruction": "Help."}}}
    async with open_plan(plan(agents=agents)) as live:
        wanted = "0000000000000000-1a2b3c4d5e6f7a8b_helper"
        made = await delegate(live, agent="helper", instruction="Say so.", sub_session_id=wanted)

    assert "Say so." in made["output"]
    assert made["session_id"] == wanted
    assert made["status"] == "success"
    assert made["turn_count"] == 1
    assert made["metadata"] == {}
    child = store.read(wanted)
    assert child.metadata["parent_id"] == "root"
    assert child.metadata["title"] == "Say so."
    before = [each.data for each in child.records() if each.kind == "messages"]
    assert before[0]["messages"] == [{"role": "system", "content": "Help."}]


async def test_an_unknown_agent_is_a_value_error_with_the_known_ones(
    plan: Plan, open_plan: Open
) -> None:
    async with open_plan(plan(agents={"helper": {}})) as live:
        said = await delegate(live, agent="nobody")

    assert said == "ValueError: Agent 'nobody' not found. Known: helper, self."


@pytest.mark.parametrize("name", ["kit:helper", "kit:agents/helper"])
async def test_an_agent_of_a_bundle_is_found_by_its_file_too(
    name: str, plan: Plan, open_plan: Open
) -> None:
    async with open_plan(plan(agents={"kit:helper": {}})) as live:
        made = await delegate(live, agent=name, instruction="Well.")

    assert "Well." in made["output"]


@pytest.mark.parametrize("unusable", [None, "", "../../x", "a:b", "root", "x" * 300])
async def test_an_id_that_cannot_be_had_is_replaced_by_one_of_the_published_form(
    unusable: str | None, plan: Plan, open_plan: Open
) -> None:
    async with open_plan(plan(agents={"kit:helper": {}})) as live:
        made = await delegate(live, agent="kit:helper", sub_session_id=unusable)

    assert made["session_id"].startswith("0000000000000000-")
    assert made["session_id"].endswith("_kit-helper")


async def test_self_has_its_parents_plan_without_the_tool_that_is_excluded(
    store: SessionStore, plan: Plan, open_plan: Open
) -> None:
    tools = [{"module": "tool-delegate"}, {"module": "tool-todo"}]
    async with open_plan(plan(tools=tools)) as live:
        made = await delegate(live)

    child = opened(store, made["session_id"])["plan"]
    assert modules(child, "tools") == ["tool-todo"]
    assert modules(child, "providers") == ["provider-mock"]


async def test_an_agent_keeps_a_tool_that_it_names_itself_though_it_is_excluded(
    store: SessionStore, plan: Plan, open_plan: Open
) -> None:
    agents = {
        "raw": {"tools": [{"module": "tool-delegate"}]},
        "compiled": {
            "tools": [{"module": "tool-delegate"}, {"module": "tool-todo"}],
            "own_tools": ["tool-todo"],
        },
    }
    async with open_plan(plan(agents=agents)) as live:
        raw = await delegate(live, agent="raw")
        compiled = await delegate(live, agent="compiled")
        only = await delegate(
            live, agent="compiled", tool_inheritance={"inherit_tools": ["tool-todo"]}
        )

    assert modules(opened(store, raw["session_id"])["plan"], "tools") == ["tool-delegate"]
    assert modules(opened(store, compiled["session_id"])["plan"], "tools") == ["tool-todo"]
    assert modules(opened(store, only["session_id"])["plan"], "tools") == ["tool-todo"]


@pytest.mark.parametrize(
    "inheritance",
    [
        {"exclude_hooks": ["hooks-budget", "hooks-logging", "hooks-redaction"]},
        {"inherit_hooks": []},
    ],
)
async def test_no_caller_leaves_a_guard_out(
    inheritance: dict[str, list[str]], store: SessionStore, plan: Plan, open_plan: Open
) -> None:
    hooks = [
        {"module": "hooks-budget", "config": {"steps": 9}},
        {"module": "hooks-redaction", "required": False},
        {"module": "hooks-logging"},
    ]
    async with open_plan(plan(hooks=hooks)) as live:
        made = await delegate(live, hook_inheritance=inheritance)

    child = opened(store, made["session_id"])["plan"]
    assert modules(child, "hooks") == ["hooks-budget", "hooks-redaction"]
    assert all(each["required"] for each in child["hooks"])


async def test_an_agent_cannot_put_other_code_in_the_place_of_a_guard(
    plan: Plan, open_plan: Open
) -> None:
    evil = {"module": "hooks-budget", "source": "./mine"}
    async with open_plan(plan(hooks=[{"module": "hooks-budget", "config": {"steps": 9}}])) as live:
        spawn = live.session.coordinator.get_capability("session.spawn")
        with pytest.raises(Exception, match="is a guard"):
            await spawn(
                agent_name="evil", instruction="x", agent_configs={"evil": {"hooks": [evil]}}
            )


async def test_a_guard_of_the_parent_is_in_force_in_the_child(plan: Plan, open_plan: Open) -> None:
    asked: list[str] = []

    async def deny(event: str, data: dict[str, Any]) -> HookResult:
        asked.append(data["session_id"])
        return HookResult(action="deny", reason="not today")

    async with open_plan(plan()) as live:
        live.session.coordinator.hooks.register("provider:request", deny, on_error="deny")
        made = await delegate(live)

    assert asked == [made["session_id"]]
    assert made["status"] == "incomplete"


async def test_what_a_child_costs_is_inside_the_budget_of_its_tree(
    plan: Plan, open_plan: Open
) -> None:
    hooks = [{"module": "hooks-budget", "config": {"steps": 2, "final_answer_reserve": 0}}]
    async with open_plan(plan(hooks=hooks)) as live:
        await delegate(live)
        status = live.session.coordinator.get_capability("budget.status")()
        await delegate(live)
        refused = await delegate(live)

    assert status["used"]["steps"] == "1"
    assert status["agents"] == 2
    assert "budget" in refused


async def test_a_limit_refuses_with_a_message_for_the_model(plan: Plan, open_plan: Open) -> None:
    tools = [{"module": "tool-delegate"}, {"module": "tool-task", "config": {"max_total": 1}}]
    async with open_plan(plan(tools=tools)) as live:
        await delegate(live)
        said = await delegate(live)

    assert said == "RefusedError: All 1 agents were started. Do the rest yourself."


async def test_children_of_children_have_the_capabilities_until_the_tree_is_too_deep(
    store: SessionStore, plan: Plan, open_plan: Open
) -> None:
    asked: dict[str, Any] = {"tool_inheritance": {}}
    again = {"tool_calls": [{"name": "delegate", "arguments": asked}]}
    model = {"module": "provider-mock", "config": {"script": [again, "Done."]}}
    async with open_plan(plan(providers=[model])) as live:
        await live.execute("Begin.")

    sessions = {each.session_id: store.read(each.session_id) for each in store.list()}
    assert len(sessions) == 4
    texts = [
        str(record.data)
        for reader in sessions.values()
        for record in reader.records()
        if record.kind == "tool.result"
    ]
    assert sum("nested 3 deep" in text for text in texts) == 1


async def test_an_agent_that_may_ask_nobody_gets_no_agents_and_one_that_names_some_gets_those(
    store: SessionStore, plan: Plan, open_plan: Open
) -> None:
    agents: dict[str, Any] = {"alone": {"agents": "none"}, "some": {"agents": ["alone"]}}
    async with open_plan(plan(agents=agents)) as live:
        alone = await delegate(live, agent="alone")
        some = await delegate(live, agent="some")

    assert opened(store, alone["session_id"])["plan"]["agents"] == {}
    assert list(opened(store, some["session_id"])["plan"]["agents"]) == ["alone"]


async def test_settings_of_the_caller_win_over_the_agent_and_those_over_the_parent(
    store: SessionStore, plan: Plan, open_plan: Open
) -> None:
    loop = {"module": "loop-basic", "config": {"max_iterations": 7, "stuck_after": 0}}
    agent = {"session": {"orchestrator": {"config": {"max_iterations": 6, "parallel_calls": 2}}}}
    session = {"orchestrator": loop, "context": "context-simple"}
    async with open_plan(plan(session=session, agents={"a": agent})) as live:
        made = await delegate(live, agent="a", orchestrator_config={"max_iterations": 5})
        handed_on = await delegate(live, agent="a", orchestrator_config=loop["config"])

    config = opened(store, made["session_id"])["plan"]["session"]["orchestrator"]["config"]
    assert config == {"max_iterations": 5, "stuck_after": 0, "parallel_calls": 2}
    config = opened(store, handed_on["session_id"])["plan"]["session"]["orchestrator"]["config"]
    assert config["max_iterations"] == 6
    metadata = opened(store, made["session_id"])["plan"]["session"]["metadata"]
    assert metadata == {"agent_name": "a"}


async def test_the_first_preference_that_can_be_met_chooses_provider_and_model(
    store: SessionStore, plan: Plan, open_plan: Open
) -> None:
    options = [
        {"provider": "nobody", "model": "x"},
        {"provider": "mock", "model": "none-*"},
        {"provider": "mock", "model": "", "config": {"delay_seconds": 0, "api_key": "evil"}},
    ]
    async with open_plan(plan(agents={"a": {"provider_preferences": options}})) as live:
        made = await delegate(live, agent="a")

    (provider,) = opened(store, made["session_id"])["plan"]["providers"]
    assert provider["config"]["priority"] == 0
    assert "default_model" not in provider["config"]
    assert "api_key" not in provider["config"]


async def test_messages_of_the_parent_are_in_the_childs_memory_before_the_prompt(
    store: SessionStore, plan: Plan, open_plan: Open
) -> None:
    earlier = [{"role": "user", "content": "We spoke of whales."}]
    async with open_plan(plan()) as live:
        made = await delegate(live, instruction="Go.", parent_messages=earlier)

    (request,) = requests_in(store.read(made["session_id"]).records())
    assert [each["content"] for each in request.messages] == ["We spoke of whales.", "Go."]


async def test_a_child_whose_caller_gives_up_is_stopped(
    plan: Plan, open_plan: Open, store: SessionStore
) -> None:
    slow = {"module": "provider-mock", "config": {"mode": "echo", "delay_seconds": 60}}
    async with open_plan(plan(providers=[slow])) as live:
        spawn = live.session.coordinator.get_capability("session.spawn")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(spawn(agent_name="self", instruction="x"), timeout=0.5)

        (child,) = [each for each in store.list() if each.session_id != "root"]
        ended = [each.kind for each in store.read(child.session_id).records()]
        assert "turn.ended" in ended


async def test_a_session_with_a_child_and_the_child_replay_without_a_difference(
    store: SessionStore, plan: Plan, open_plan: Open
) -> None:
    asked = {"agent": "helper", "instruction": "Hi."}
    script = [{"tool_calls": [{"name": "delegate", "arguments": asked}]}, "Done."]
    child = {"module": "provider-mock", "config": {"script": ["From the child."]}}
    model = {"module": "provider-mock", "config": {"script": script}}
    agents = {"helper": {"providers": [child], "system": {"instruction": "Help."}}}
    async with open_plan(plan(providers=[model], agents=agents)) as live:
        assert await live.execute("Ask.") == "Done."

    for session in store.list():
        assert (await replay(store.read(session.session_id))).differences == []
    assert len(store.list()) == 2


async def test_a_child_that_a_module_forks_itself_can_delegate_too(
    plan: Plan, open_plan: Open
) -> None:
    async with open_plan(plan()) as live:
        child = live.session.fork(session_id="forked")
        async with child:
            await child.execute("Hello.")
            made = await child.coordinator.get_capability("session.spawn")(
                agent_name="self", instruction="Well."
            )

    assert "Well." in made["output"]
