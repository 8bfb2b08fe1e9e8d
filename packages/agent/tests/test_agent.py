"""An agent in process: answers, tools, types, sub-agents, and what cannot be built."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import date
from typing import Any, cast

import pytest

from amplifier import Agent, AgentError, Image, TextDelta, ToolEnded, ToolStarted, tool
from amplifier.functions import FunctionTool
from amplifier_core.testing import MockCoordinator
from end_to_end.shop import (
    Delivery,
    Deps,
    Ticket,
    broken,
    calls,
    lookup,
    refund,
    script,
    thread_of_this_call,
)


def test_an_agent_answers_in_one_line() -> None:
    done = Agent(script("Hello.")).run_sync("Hi")

    assert done.output == done.text == "Hello."
    assert done.stop_reason == "completed"
    assert done.usage.calls == 1
    assert done.cost_usd == 0


async def test_a_tool_has_the_dependencies_of_its_session() -> None:
    agent = Agent(script(calls("lookup", order_id=7), "Found."), tools=[lookup], deps=Deps)

    async with agent.session(deps=Deps("ann")) as session:
        events = [each async for each in session.stream("Where is 7?")]

    started, ended = (each for each in events if isinstance(each, ToolStarted | ToolEnded))
    assert isinstance(started, ToolStarted)
    assert started.input == {"order_id": 7}
    assert isinstance(ended, ToolEnded)
    assert ended.output == {"number": 7, "customer": "ann"}
    assert [each.text for each in events if isinstance(each, TextDelta)] == ["Found."]


def test_types_and_docstring_of_a_function_are_its_schema() -> None:
    made = FunctionTool(lookup, MockCoordinator())

    assert made.name == "lookup"
    assert made.description == "Look up an order.\n\nIt is read and never changed."
    assert made.input_schema["properties"]["order_id"] == {
        "description": "The number on the invoice.",
        "title": "Order Id",
        "type": "integer",
    }
    assert made.input_schema["required"] == ["order_id"]
    assert made.effect == "pure"
    assert made.deadline_seconds == 10


async def test_wrong_arguments_are_explained_to_the_model() -> None:
    made = FunctionTool(refund, MockCoordinator())

    result = await made.execute({"order_id": "seven", "colour": 1})

    assert not result.success
    assert result.error is not None
    assert "order_id: Input should be a valid integer" in result.error["message"]
    assert "colour: Extra inputs are not permitted" in result.error["message"]


async def test_a_synchronous_tool_runs_in_a_thread_under_its_own_name() -> None:
    agent = Agent(script(calls("where"), "Done."), tools=[thread_of_this_call])

    async with agent.session() as session:
        events = [each async for each in session.stream("Where?")]

    assert [each.output for each in events if isinstance(each, ToolEnded)] == [False]


async def test_a_tool_that_fails_does_not_end_the_turn() -> None:
    agent = Agent(script(calls("broken"), "It failed."), tools=[broken])

    async with agent.session() as session:
        events = [each async for each in session.stream("Try.")]

    (ended,) = [each for each in events if isinstance(each, ToolEnded)]
    assert ended.error is not None
    assert "the shop is closed" in ended.error


def test_the_answer_has_the_type_of_the_output() -> None:
    agent = Agent(script('{"title": "Refund 7", "urgent": true}'), output=Ticket)

    assert agent.run_sync("refund 7").output == Ticket(title="Refund 7", urgent=True)


def test_an_answer_of_another_type_is_an_error_that_says_so() -> None:
    agent = Agent(script("no JSON", "still none"), output=Ticket)

    with pytest.raises(AgentError, match="does not have the type of the output"):
        agent.run_sync("refund 7")


async def test_one_turn_of_a_session_can_have_a_type_of_its_own() -> None:
    agent = Agent(script("Which one?", '{"title": "Refund 7"}', "Done."))

    async with agent.session() as session:
        assert (await session.run("Refund.")).output == "Which one?"
        assert (await session.run("7", output=Ticket)).output == Ticket(title="Refund 7")
        assert (await session.run("Thanks.")).output == "Done."


async def test_a_session_has_instructions_images_and_the_turns_before() -> None:
    agent = Agent(script("A cat.", "Yes."), instructions="You look at pictures.")

    async with agent.session() as session:
        await session.run(["What is this?", Image(b"png")])
        await session.run("Sure?")
        context: Any = session.kernel.coordinator.get("context")
        messages = await context.get_messages_for_request()

    assert messages[0] == {"role": "system", "content": "You look at pictures."}
    text, image = messages[1]["content"]
    assert text == {"type": "text", "text": "What is this?"}
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": "cG5n"}
    assert [each["role"] for each in messages[2:]] == ["assistant", "user", "assistant"]


async def test_leaving_the_stream_cancels_the_turn_and_keeps_the_conversation() -> None:
    slow = {"module": "provider-mock", "config": {"script": ["First.", "Second."], "stream": True}}
    agent = Agent(slow)

    async with agent.session() as session:
        async for event in session.stream("One."):
            assert isinstance(event, TextDelta)
            break
        done = await session.run("Two.")
        messages = await session.messages()

    assert done.stop_reason == "completed"
    assert [each["content"] for each in messages if each["role"] == "user"] == ["One.", "Two."]


async def test_a_task_that_is_cancelled_cancels_its_turn() -> None:
    agent = Agent({"module": "provider-mock", "config": {"delay_seconds": 60, "mode": "echo"}})

    async with agent.session() as session:

        async def read() -> None:
            async for _ in session.stream("Hi"):
                pass

        reading = asyncio.create_task(read())
        while not await session.messages():  # noqa: ASYNC110 - the turn does not tell
            await asyncio.sleep(0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

        assert not session.kernel.coordinator.cancellation.is_cancelled


async def test_a_sub_agent_has_its_tools_and_the_dependencies_of_its_parent() -> None:
    helper = Agent(
        script(calls("lookup", order_id=3), "It is ann's."),
        tools=[lookup],
        deps=Deps,
        description="Looks up orders.",
    )
    lead = Agent(
        script(calls("task", agent="helper", prompt="Whose is 3?"), "Done."),
        deps=Deps,
        agents={"helper": helper},
    )

    async with lead.session(deps=Deps("ann")) as session:
        events = [each async for each in session.stream("Find out.")]

    assert [each.output for each in events if isinstance(each, ToolEnded)] == ["It is ann's."]


async def test_a_sub_agent_gives_work_to_agents_of_its_own() -> None:
    clerk = Agent(script("It is ann's."), description="Looks up orders.")
    manager = Agent(
        script(calls("task", agent="clerk", prompt="Whose is 3?"), "The clerk knows."),
        agents={"clerk": clerk},
        description="Has a clerk.",
    )
    lead = Agent(
        script(calls("task", agent="manager", prompt="Find out."), "Done."),
        agents={"manager": manager},
    )
    finished: list[Any] = []

    async def hear(_: str, data: dict[str, Any]) -> None:
        finished.append(data["agent"])

    async with lead.session() as session:
        session.kernel.coordinator.hooks.register("task:finished", hear)
        events = [each async for each in session.stream("Go.")]

    assert [each.output for each in events if isinstance(each, ToolEnded)] == ["The clerk knows."]
    assert finished == ["clerk", "manager"]


async def test_a_sub_agent_has_its_own_instructions_and_type_of_answer() -> None:
    helper = Agent(script("A text."), description="Says something.")
    lead = Agent(
        script(calls("task", agent="helper", prompt="Say it."), '{"title": "Done"}'),
        instructions="You lead.",
        output=Ticket,
        agents={"helper": helper},
    )

    async with lead.session() as session:
        events = [each async for each in session.stream("Go.")]

    assert [each.output for each in events if isinstance(each, ToolEnded)] == ["A text."]
    config = lead.plan["agents"]["helper"]["session"]
    assert config["context"]["config"]["instructions"] == ""
    assert config["orchestrator"]["config"]["output_schema"] is None


async def test_tools_of_modules_are_mounted_beside_functions() -> None:
    agent = Agent(
        script(calls("todo", operation="read"), "Done."),
        tools=[refund],
        tool_modules=[{"module": "tool-todo"}],
    )

    async with agent.session() as session:
        assert set(session.kernel.coordinator.get("tools")) >= {"refund", "todo"}


def test_a_plan_is_data_and_cannot_be_changed_from_outside() -> None:
    agent = Agent(script("Hi."), tools=[lookup], deps=Deps, output=Ticket)

    plan = agent.plan
    assert json.loads(json.dumps(plan)) == plan
    plan["providers"].clear()
    assert agent.plan["providers"]
    assert plan["tools"][0]["config"]["functions"] == [f"{lookup.__module__}:lookup"]


def test_a_function_without_a_name_of_its_own_is_refused() -> None:
    def inner() -> str:
        return ""

    with pytest.raises(AgentError, match="top level of a module"):
        Agent(script("Hi."), tools=[inner])


def test_a_provider_that_is_not_installed_is_refused_with_those_that_are() -> None:
    with pytest.raises(AgentError, match=r"`nobody` is not installed.*mock"):
        Agent("nobody:model-1")


@pytest.mark.parametrize("left_at", [ToolStarted, ToolEnded, TextDelta])
async def test_a_loop_that_is_left_by_break_does_not_cancel_the_next_turns(
    left_at: type[object],
) -> None:
    agent = Agent(script(calls("where"), *["Said."] * 4), tools=[thread_of_this_call])

    async with agent.session() as session:
        async for event in session.stream("One."):
            if isinstance(event, left_at):
                break
        reasons = [(await session.run(each)).stop_reason for each in ("Two.", "Three.")]
        async for _ in session.stream("Four."):
            break

    assert reasons == ["completed", "completed"]


def test_an_answer_that_only_its_type_refuses_is_sent_back_once() -> None:
    agent = Agent(script('{"on": "yesterday"}', '{"on": "2026-05-03"}'), output=Delivery)

    done = agent.run_sync("When?")

    assert done.output == Delivery(on=date(2026, 5, 3))
    assert done.usage.calls == 2


def test_an_answer_that_is_refused_twice_names_what_does_not_fit() -> None:
    agent = Agent(script(*['{"on": "yesterday"}'] * 2), output=Delivery)

    with pytest.raises(AgentError, match="on: Input should be a valid date"):
        agent.run_sync("When?")


def test_a_tool_that_cannot_be_imported_stops_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(script("Hi."), tools=[thread_of_this_call])
    monkeypatch.delattr(sys.modules[thread_of_this_call.__module__], "thread_of_this_call")

    with pytest.raises(AgentError, match="thread_of_this_call"):
        agent.run_sync("Hi")


def test_a_missing_key_is_reported_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Python prints warnings to stderr if a program has not configured logging.
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(AgentError, match="set ANTHROPIC_API_KEY"):
        Agent("anthropic:claude-sonnet-5-5").run_sync("Hi")

    assert "Failed to load provider" in caplog.text
    assert [each for each in caplog.records if each.exc_info and each.levelname != "DEBUG"] == []


def test_mistakes_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(AgentError, match="`claude` does not name a provider"):
        Agent("claude")
    with pytest.raises(AgentError, match="ANTHROPIC_API_KEY"):
        Agent("anthropic:claude-sonnet-5-5").run_sync("Hi")
    with pytest.raises(AgentError, match="`pur` is not an effect"):
        tool(effect=cast("Any", "pur"))
    with pytest.raises(AgentError, match="needs its dependencies"):
        Agent(script("Hi."), deps=Deps).run_sync("Hi", deps=cast("Any", None))
    with pytest.raises(AgentError, match="is not the address of a database"):
        Agent(script("Hi.")).durable("mysql://x/y")
