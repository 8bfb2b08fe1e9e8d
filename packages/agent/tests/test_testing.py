"""Tests of agents: scripted models, refused vendors, replays against a changed agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from amplifier import (
    Agent,
    AgentError,
    Ask,
    Budget,
    Deny,
    Guard,
    Question,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolEnded,
)
from amplifier.models import mount
from amplifier.testing import (
    ModelRequest,
    Reply,
    ScriptedModel,
    ToolUse,
    replay,
    replay_sync,
)
from amplifier_core.testing import MockCoordinator
from end_to_end.shop import Deps, Ticket, lookup, refund

seen: list[ModelRequest] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


def clerk(request: ModelRequest) -> str | ToolUse:
    """Look an order up, and say what was found."""
    seen.append(request)
    if not request.results:
        return ToolUse("lookup", {"order_id": 7})
    return f"{request.prompt} It is {json.loads(request.results[0])['customer']}'s."


async def thinker(request: ModelRequest) -> Reply:
    return Reply("Two of them.", thinking="How many?")


def two_calls(request: ModelRequest) -> Reply | str:
    uses = [ToolUse("lookup", {"order_id": number}) for number in (1, 2)]
    return "Done." if request.results else Reply("I look.", uses)


def strict_reader(request: ModelRequest) -> str:
    assert request.prompt == "Hello", "another prompt"
    return "Hi."


def wrong(request: ModelRequest) -> Any:
    return 7


async def test_a_function_answers_what_the_model_would_see() -> None:
    agent = Agent(ScriptedModel(clerk), instructions="You run a shop.", tools=[lookup], deps=Deps)

    done = await agent.run("Whose is 7?", deps=Deps("ann"))

    assert done.output == "Whose is 7? It is ann's."
    assert (done.usage.calls, done.cost_usd) == (2, 0)
    first, second = seen
    assert first.instructions == "You run a shop."
    assert [(each.role, each.text) for each in first.messages] == [("user", "Whose is 7?")]
    (offered,) = first.tools
    assert offered.name == "lookup"
    assert offered.description.startswith("Look up an order.")
    assert offered.input_schema["required"] == ["order_id"]
    assert [each.role for each in second.messages] == ["user", "assistant", "tool"]
    assert second.messages[1].calls == (ToolUse("lookup", {"order_id": 7}, "call_1"),)
    assert len(second.raw.messages) == 4


async def test_a_request_knows_its_own_turn() -> None:
    agent = Agent(ScriptedModel(clerk), tools=[lookup], deps=Deps)

    async with agent.session(deps=Deps("ann")) as session:
        await session.run("One?")
        await session.run("Two?")

    assert [each.prompt for each in seen] == ["One?", "One?", "Two?", "Two?"]
    assert [len(each.results) for each in seen] == [0, 1, 0, 1]
    ids = [call.id for message in seen[-1].messages for call in message.calls]
    assert ids == ["call_1", "call_2"]


async def test_answers_are_streamed_word_by_word() -> None:
    async with Agent(ScriptedModel(thinker)).session() as session:
        events = [each async for each in session.stream("How many?")]

    texts = [each.text for each in events if isinstance(each, TextDelta)]
    thoughts = [each.text for each in events if isinstance(each, ThinkingDelta)]
    assert texts == ["Two ", "of ", "them."]
    assert thoughts == ["How ", "many?"]


async def test_a_reply_can_have_text_and_several_calls() -> None:
    agent = Agent(ScriptedModel(two_calls), tools=[lookup], deps=Deps)

    async with agent.session(deps=Deps("ann")) as session:
        events = [each async for each in session.stream("Both?")]

    assert [each.call_id for each in events if isinstance(each, ToolEnded)] == ["call_1", "call_2"]


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_failed_assertion_of_the_function_fails_the_test(
    is_stored: bool, tmp_path: Path
) -> None:
    agent = Agent(ScriptedModel(strict_reader))
    store = tmp_path if is_stored else None

    assert (await agent.run("Hello", store=store)).output == "Hi."
    with pytest.raises(AssertionError, match="another prompt"):
        await agent.run("Bye", store=store)


def test_steps_are_played_in_order() -> None:
    model = ScriptedModel([ToolUse("lookup", {"order_id": 7}), Reply("Found.", thinking="So.")])
    agent = Agent(model, tools=[lookup], deps=Deps)

    assert agent.run_sync("Whose?", deps=Deps("ann")).output == "Found."
    assert agent.run_sync("Whose?", deps=Deps("ann")).output == "Found."


def test_typed_answers_can_be_scripted() -> None:
    agent = Agent(ScriptedModel(['{"title": "Refund 7"}']), output=Ticket)

    assert agent.run_sync("Refund 7.").output == Ticket(title="Refund 7")


def test_the_plan_of_a_scripted_agent_is_data() -> None:
    for model in (ScriptedModel(clerk), ScriptedModel(["Hi.", ToolUse("lookup")])):
        plan = Agent(model).plan

        assert json.loads(json.dumps(plan)) == plan


async def test_a_scripted_session_continues_from_its_store(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel(clerk), tools=[lookup], deps=Deps)

    for prompt in ("One?", "Two?"):
        async with agent.session("c1", store=tmp_path, deps=Deps("ann")) as session:
            await session.run(prompt)

    ids = [call.id for message in seen[-1].messages for call in message.calls]
    assert ids == ["call_1", "call_2"]


def test_what_cannot_be_a_script_is_refused() -> None:
    def inner(request: ModelRequest) -> str:
        return "Hi."

    with pytest.raises(AgentError, match="top level of a module"):
        ScriptedModel(inner)
    with pytest.raises(AgentError, match="A text is not a script"):
        ScriptedModel("Hi.")


def test_an_answer_of_another_type_is_refused() -> None:
    with pytest.raises(AgentError, match="answered with a int"):
        Agent(ScriptedModel(wrong)).run_sync("Hi")


async def test_the_provider_describes_its_model() -> None:
    coordinator = MockCoordinator()
    await mount(coordinator, {"function": f"{__name__}:clerk"})
    provider: Any = coordinator.get("providers")["scripted"]

    (model,) = await provider.list_models()
    assert provider.get_info().defaults["model"] == model.id == "scripted"


# --- testing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_real_model_is_refused_in_a_test(is_stored: bool, tmp_path: Path) -> None:
    agent = Agent("anthropic:claude-sonnet-5-5").testing()

    with pytest.raises(AgentError) as raised:
        agent.run_sync("Hello", store=tmp_path if is_stored else None)

    assert raised.value.message == "This agent is under test and has no scripted model."
    assert raised.value.why
    assert "ScriptedModel" in raised.value.fix


def test_an_agent_under_test_differs_only_in_its_model() -> None:
    agent = Agent("anthropic:claude-sonnet-5-5", tools=[lookup], deps=Deps, output=Ticket)

    tested = agent.testing(ScriptedModel(['{"title": "Refund 7"}']))

    assert tested.run_sync("Refund 7.", deps=Deps("ann")).output == Ticket(title="Refund 7")
    assert {**tested.plan, "providers": agent.plan["providers"]} == agent.plan
    assert agent.plan["providers"][0]["module"] == "provider-anthropic"


def test_models_that_reach_no_vendor_stay() -> None:
    agent = Agent(ScriptedModel(["Hi."])).testing()

    assert agent.run_sync("Hello").output == "Hi."


DELEGATE = [ToolUse("task", {"agent": "helper", "prompt": "Whose is 3?"}), "Done."]


async def ended(agent: Agent[Deps]) -> Sequence[ToolEnded]:
    async with agent.session(deps=Deps("ann")) as session:
        events = [each async for each in session.stream("Find out.")]
    return [each for each in events if isinstance(each, ToolEnded)]


async def test_the_real_model_of_a_sub_agent_is_refused_too() -> None:
    helper = Agent("anthropic:claude-sonnet-5-5", deps=Deps, description="Looks up orders.")
    lead = Agent("anthropic:claude-sonnet-5-5", deps=Deps, agents={"helper": helper})

    (call,) = await ended(lead.testing(ScriptedModel(DELEGATE)))

    assert call.error is not None
    assert "has no scripted model" in call.error


async def test_sub_agents_have_scripted_models_of_their_own() -> None:
    helper = Agent(
        "anthropic:claude-sonnet-5-5", tools=[lookup], deps=Deps, description="Looks up orders."
    )
    lead = Agent("anthropic:claude-sonnet-5-5", deps=Deps, agents={"helper": helper})
    tested = lead.testing(ScriptedModel(DELEGATE), agents={"helper": ScriptedModel(clerk)})

    (call,) = await ended(tested)

    assert call.output == "Whose is 3? It is ann's."
    with pytest.raises(AgentError, match=r"no sub-agent `nobody`.*helper"):
        lead.testing(agents={"nobody": ScriptedModel(clerk)})


# --- replay --------------------------------------------------------------------------------------


def shop(
    instructions: str = "You run a shop.",
    tools: Sequence[Callable[..., Any]] = (lookup,),
    guards: Sequence[Guard[Deps]] = (),
) -> Agent[Deps]:
    return Agent(
        ScriptedModel(clerk), instructions=instructions, tools=tools, deps=Deps, guards=guards
    )


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    """Two turns of a shop."""
    async with shop().session("c1", store=tmp_path, deps=Deps("ann")) as session:
        await session.run("Whose is 7?")
        await session.run("Sure?")
    seen.clear()
    return tmp_path


async def test_a_stored_session_replays_without_its_model_and_its_tools(store: Path) -> None:
    result = await replay(store, "c1")

    assert (result.differences, result.turns, result.first) == ([], 2, None)
    assert seen == []


async def test_the_same_agent_replays_to_the_end(store: Path) -> None:
    result = await replay(store, "c1", agent=shop(), deps=Deps("ann"))

    assert (result.differences, result.turns, result.is_complete) == ([], 2, True)
    assert seen == []


def test_a_changed_prompt_diverges_at_the_first_request(store: Path) -> None:
    result = replay_sync(store, "c1", agent=shop("You run a bank."))

    assert not result.is_complete
    assert result.turns == 0
    assert result.first is not None
    assert (result.first.kind, result.first.turn) == ("request", 1)
    assert "+" in result.first.diff
    assert "You run a bank." in result.first.diff
    assert "stopped here, after 0 turn(s)" in str(result)


async def test_another_tool_diverges_at_the_list_of_tools(store: Path) -> None:
    result = await replay(store, "c1", agent=shop(tools=[lookup, refund]))

    assert [each.about for each in result.differences] == [
        "the list of tools of the request to `scripted` differs"
    ]


def no_sevens(call: ToolCall[Deps]) -> Deny | None:
    return Deny(f"Not for {call.deps.user}.") if call.input["order_id"] == 7 else None


def asks(call: ToolCall[Deps]) -> Ask:
    return Ask("Really?")


async def test_a_guard_that_denies_diverges_at_the_result(store: Path) -> None:
    result = await replay(store, "c1", agent=shop(guards=[no_sevens]), deps=Deps("ann"))

    assert result.first is not None
    assert result.first.about == "the tool message differs"
    assert "Not for ann." in result.first.diff
    assert result.turns == 0


async def test_a_guard_that_was_taken_away_diverges_at_the_call(tmp_path: Path) -> None:
    guarded = Agent(
        ScriptedModel([ToolUse("lookup", {"order_id": 7}), "Denied."]),
        tools=[lookup],
        deps=Deps,
        guards=[no_sevens],
    )
    async with guarded.session("c1", store=tmp_path, deps=Deps("ann")) as session:
        await session.run("Whose is 7?")

    result = await replay(tmp_path, "c1", agent=shop(""), deps=Deps("ann"))

    assert result.first is not None
    assert result.first.about == "a call of the tool `lookup` is new"
    assert not result.is_complete


async def test_a_question_that_was_not_asked_diverges_there(store: Path) -> None:
    result = await replay(store, "c1", agent=shop(guards=[asks]), deps=Deps("ann"))

    assert [each.about for each in result.differences] == ["an approval is new: Really?"]


async def test_a_session_with_sub_agents_replays(tmp_path: Path) -> None:
    helper = Agent(ScriptedModel(clerk), tools=[lookup], deps=Deps, description="Looks up orders.")
    lead = Agent(ScriptedModel(DELEGATE), deps=Deps, agents={"helper": helper})
    async with lead.session("c1", store=tmp_path, deps=Deps("ann")) as session:
        await session.run("Find out.")

    result = await replay(tmp_path, "c1", agent=lead, deps=Deps("ann"))

    assert (result.differences, result.turns) == ([], 1)


async def test_a_resumed_session_diverges_in_the_turn_that_changed(tmp_path: Path) -> None:
    for agent, prompt in ((shop(), "Whose is 7?"), (shop("Be kind."), "Sure?")):
        async with agent.session("c1", store=tmp_path, deps=Deps("ann")) as session:
            await session.run(prompt)

    assert not (await replay(tmp_path, "c1")).differences
    result = await replay(tmp_path, "c1", agent=shop(), deps=Deps("ann"))

    assert result.first is not None
    assert (result.turns, result.first.turn) == (1, 2)


async def test_a_session_with_a_budget_and_a_question_replays(tmp_path: Path) -> None:
    model = ScriptedModel([ToolUse("refund", {"order_id": 7}), "Refunded."])
    agent = Agent(model, tools=[refund])
    async with agent.session("c1", store=tmp_path, budget=Budget("1.00")) as session:
        async for event in session.stream("Refund 7."):
            if isinstance(event, Question):
                await event.answer("Allow once")

    for each in (None, agent):
        result = await replay(tmp_path, "c1", agent=each)

        assert (result.differences, result.turns) == ([], 1)
