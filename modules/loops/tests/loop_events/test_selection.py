"""Tests of selecting a tool: what schedulers are asked, what they may answer, what follows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core import HookResult, ToolResult
from amplifier_core.testing import EventRecorder, MockContextManager, MockTool
from amplifier_module_loops.loop_events.loop import EventDrivenLoop
from contract.doubles import Approvals, Display, Listener, ask, broken_pairs, deny, inject, modify
from contract.installer import ScriptedProvider
from contract.requirements import requirement
from contract.turns import Turn, calls

TurnMaker = Callable[..., Awaitable[Turn]]


class Keeper:
    """A tool that keeps what it was given, and may hang then."""

    description = "Keeps what it is given."

    def __init__(self, name: str, *, hangs: bool = False) -> None:
        self.name = name
        self.hangs = hangs
        self.given: list[dict[str, Any]] = []

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self.given.append(input)
        if self.hangs:
            await asyncio.Event().wait()
        return ToolResult(output=f"{self.name} ran")


async def test_every_call_is_put_to_the_schedulers_before_the_guards(turn_of: TurnMaker) -> None:
    turn = await turn_of(calls("a", "b"), "Done.", tools=[MockTool("a"), MockTool("b")])

    assert await turn.run() == "Done."

    asked = turn.told("tool:selecting")
    assert [each["tool_name"] for each in asked] == ["a", "b"]
    assert [each["tool_input"] for each in asked] == [{"n": 1}, {"n": 2}]
    assert [each["tool_call_id"] for each in asked] == ["call_1", "call_2"]
    assert all(each["available_tools"] == ["a", "b"] for each in asked)
    of_one_call = [
        event for event, data in turn.heard.calls if data.get("tool_call_id") == "call_2"
    ]
    assert of_one_call == ["tool:selecting", "tool:selected", "tool:pre", "tool:post"]


async def test_without_an_objection_the_choice_is_the_models(turn_of: TurnMaker) -> None:
    turn = await turn_of(calls("a"), "Done.", tools=[MockTool("a", "a ran")])

    await turn.run()

    (selected,) = turn.told("tool:selected")
    assert selected["tool"] == "a"
    assert selected["source"] == "llm"
    assert selected["original_tool"] is None
    assert turn.results == ["a ran"]


async def test_it_works_without_a_coordinator_and_with_a_recorder_for_the_hooks() -> None:
    recorder, context = EventRecorder(), MockContextManager()

    answer = await EventDrivenLoop().execute(
        prompt="hi",
        context=context,
        providers={"test": ScriptedProvider(calls("a"), "Done.")},
        tools={"a": MockTool("a", "a ran")},
        hooks=recorder,
    )

    assert answer == "Done."
    assert [event for event, _ in recorder.events if event.startswith("tool:select")] == [
        "tool:selecting",
        "tool:selected",
    ]
    assert context.messages[2]["content"] == "a ran"


@requirement("ORCH-23")
@pytest.mark.parametrize("key", ["tool", "tool_name"])
async def test_a_published_scheduler_names_another_tool_and_that_one_runs(
    turn_of: TurnMaker, key: str
) -> None:
    """They answer with a name alone: under the key of the loop, or the one they were sent."""

    async def scheduler(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={key: "cheap"})

    dear, cheap = Keeper("dear"), Keeper("cheap")
    turn = await turn_of(calls("dear"), "Done.", tools=[dear, cheap])
    turn.hooks.register("tool:selecting", scheduler)

    assert await turn.run() == "Done."

    assert (dear.given, cheap.given) == ([], [{"n": 1}])
    (selected,) = turn.told("tool:selected")
    assert selected["tool"] == selected["tool_name"] == "cheap"
    assert selected["source"] == "scheduler"
    assert selected["original_tool"] == "dear"


async def test_a_scheduler_may_select_a_tool_by_its_own_name(turn_of: TurnMaker) -> None:
    dear, cheap = Keeper("dear"), Keeper("cheap")
    turn = await turn_of(calls("dear"), "Done.", tools=[dear])
    turn.tools["mounted-as"] = cheap
    turn.hooks.register("tool:selecting", Listener(modify({"tool": "cheap"})))

    await turn.run()

    assert (dear.given, cheap.given) == ([], [{"n": 1}])


async def test_the_result_answers_the_call_that_the_model_made(turn_of: TurnMaker) -> None:
    turn = await turn_of(calls("dear"), "Done.", tools=[MockTool("cheap", "cheap ran")])
    turn.hooks.register("tool:selecting", Listener(modify({"tool": "cheap"})))

    await turn.run()

    (stored,) = [each for each in turn.context.messages if each["role"] == "tool"]
    assert stored == {
        "role": "tool",
        "tool_call_id": "call_1",
        "name": "dear",
        "content": "cheap ran",
    }
    assert broken_pairs(turn.context.messages) == []


async def test_a_scheduler_that_confirms_the_models_choice_is_named_as_its_source(
    turn_of: TurnMaker,
) -> None:
    turn = await turn_of(calls("a"), "Done.", tools=[MockTool("a")])
    turn.hooks.register("tool:selecting", Listener(modify({"tool": "a"})))

    await turn.run()

    (selected,) = turn.told("tool:selected")
    assert (selected["source"], selected["original_tool"]) == ("scheduler", "a")


async def test_a_scheduler_may_edit_the_name_and_the_input_that_it_was_asked_about(
    turn_of: TurnMaker,
) -> None:
    async def scheduler(event: str, data: dict[str, Any]) -> HookResult:
        edits = {"tool_name": "b", "tool_input": {"query": data["tool_input"]["n"]}}
        return HookResult(action="modify", data={**data, **edits})

    a, b = Keeper("a"), Keeper("b")
    turn = await turn_of(calls("a"), "Done.", tools=[a, b])
    turn.hooks.register("tool:selecting", scheduler)

    await turn.run()

    assert (a.given, b.given) == ([], [{"query": 1}])
    assert turn.told("tool:pre")[0]["tool_input"] == {"query": 1}
    assert turn.told("tool:selected")[0]["source"] == "scheduler"


async def test_the_key_tool_wins_over_an_edited_tool_name(turn_of: TurnMaker) -> None:
    a, b, c = Keeper("a"), Keeper("b"), Keeper("c")
    turn = await turn_of(calls("a"), "Done.", tools=[a, b, c])
    turn.hooks.register("tool:selecting", Listener(modify({"tool": "c", "tool_name": "b"})))

    await turn.run()

    assert (a.given, b.given, c.given) == ([], [], [{"n": 1}])


async def test_of_several_schedulers_the_last_to_edit_decides(turn_of: TurnMaker) -> None:
    a, b, c = Keeper("a"), Keeper("b"), Keeper("c")
    turn = await turn_of(calls("a"), "Done.", tools=[a, b, c])
    turn.hooks.register("tool:selecting", Listener(modify({"tool": "b"})), 10)
    later = Listener(modify({"tool": "c"}))
    turn.hooks.register("tool:selecting", later, 20)

    await turn.run()

    assert later.data["tool"] == "b"
    assert (b.given, c.given) == ([], [{"n": 1}])


async def test_a_denied_call_runs_nothing_and_the_model_reads_the_reason(
    turn_of: TurnMaker,
) -> None:
    a, b = Keeper("a"), Keeper("b")
    turn = await turn_of(calls("a", "b"), "Done.", tools=[a, b])

    async def scheduler(event: str, data: dict[str, Any]) -> HookResult | None:
        return deny("too dear") if data["tool_name"] == "a" else None

    turn.hooks.register("tool:selecting", scheduler)

    assert await turn.run() == "Done."

    assert (a.given, b.given) == ([], [{"n": 2}])
    assert turn.results == ["Denied by hook: too dear", "b ran"]
    assert [each["tool"] for each in turn.told("tool:selected")] == ["b"]
    assert [each["tool_name"] for each in turn.told("tool:pre")] == ["b"]
    assert broken_pairs(turn.context.messages) == []


async def test_a_denial_without_a_reason_says_so(turn_of: TurnMaker) -> None:
    turn = await turn_of(calls("a"), "Done.", tools=[MockTool("a")])
    turn.hooks.register("tool:selecting", Listener(HookResult(action="deny")))

    await turn.run()

    assert turn.results == ["Denied by hook: no reason given"]


async def test_a_scheduler_cannot_lead_a_call_past_a_guard(turn_of: TurnMaker) -> None:
    async def guard(event: str, data: dict[str, Any]) -> HookResult | None:
        return deny("not bash") if data["tool_name"] == "bash" else None

    bash, read = Keeper("bash"), Keeper("read")
    turn = await turn_of(calls("read"), "Done.", tools=[bash, read])
    turn.hooks.register("tool:selecting", Listener(modify({"tool": "bash"})))
    turn.hooks.register("tool:pre", guard, on_error="deny")

    await turn.run()

    assert (bash.given, read.given) == ([], [])
    assert turn.results == ["Denied by hook: not bash"]


async def test_a_scheduler_that_is_a_guard_and_fails_denies(turn_of: TurnMaker) -> None:
    async def broken(event: str, data: dict[str, Any]) -> HookResult:
        raise RuntimeError("no price list")

    a = Keeper("a")
    turn = await turn_of(calls("a"), "Done.", tools=[a])
    turn.hooks.register("tool:selecting", broken, name="prices", on_error="deny")

    await turn.run()

    assert a.given == []
    assert "no price list" in turn.results[0]


async def test_a_selected_tool_that_does_not_exist_is_an_error_that_is_seen(
    turn_of: TurnMaker,
) -> None:
    a = Keeper("a")
    turn = await turn_of(calls("a"), "Done.", tools=[a])
    turn.coordinator.display_system = display = Display()
    turn.hooks.register("tool:selecting", Listener(modify({"tool": "ghost"})))

    assert await turn.run() == "Done."

    (result,) = turn.results
    assert "there is no tool `ghost`; available: a" in result
    assert a.given == []
    assert [each["tool"] for each in turn.told("tool:selected")] == ["ghost"]
    assert turn.told("tool:error")[0]["error"]["type"] == "LookupError"
    assert any("ghost" in message for message, *_ in display.shown)
    assert broken_pairs(turn.context.messages) == []


async def test_a_tool_that_the_model_invented_can_be_replaced_by_one_that_exists(
    turn_of: TurnMaker,
) -> None:
    turn = await turn_of(calls("serch"), "Done.", tools=[MockTool("search", "found")])
    turn.hooks.register("tool:selecting", Listener(modify({"tool": "search"})))

    await turn.run()

    assert turn.results == ["found"]


async def test_a_tool_that_the_model_invented_is_answered_for_as_in_every_loop(
    turn_of: TurnMaker,
) -> None:
    turn = await turn_of(calls("serch"), "Done.", tools=[MockTool("search")])

    await turn.run()

    assert turn.results == [
        "Error executing tool: LookupError: there is no tool `serch`; available: search"
    ]


@pytest.mark.parametrize("answer", [{"tool": 7}, {"tool_name": None}, {"tool_input": "text"}])
async def test_an_answer_that_cannot_be_read_runs_nothing(
    turn_of: TurnMaker, answer: dict[str, Any]
) -> None:
    a = Keeper("a")
    turn = await turn_of(calls("a"), "Done.", tools=[a])
    turn.hooks.register("tool:selecting", Listener(modify(answer)))

    assert await turn.run() == "Done."

    assert a.given == []
    assert "`tool_input` a mapping" in turn.results[0]
    assert turn.told("tool:selected") == []
    assert turn.told("tool:error")[0]["error"]["type"] == "TypeError"


@pytest.mark.parametrize(("answer", "ran"), [("Allow", True), ("Deny", False)])
async def test_a_scheduler_may_ask_the_user(turn_of: TurnMaker, answer: str, ran: bool) -> None:
    a = Keeper("a")
    turn = await turn_of(calls("a"), "Done.", tools=[a])
    turn.coordinator.approval_system = approvals = Approvals(answer)
    turn.hooks.register("tool:selecting", Listener(ask("Use the dear tool?")))

    await turn.run()

    assert approvals.asked[0][0] == "Use the dear tool?"
    assert bool(a.given) is ran
    assert turn.results[0].startswith("a ran" if ran else "Denied by hook: ")


async def test_what_a_scheduler_injects_reaches_the_next_request(turn_of: TurnMaker) -> None:
    turn = await turn_of(calls("a"), "Done.", tools=[MockTool("a")])
    turn.hooks.register("tool:selecting", Listener(inject("Tools are dear today.", ephemeral=True)))

    await turn.run()

    assert turn.provider.requests[-1].messages[-1].content == "Tools are dear today."
    assert all("dear" not in str(each["content"]) for each in turn.context.messages)


async def test_the_deadline_is_that_of_the_tool_that_runs(turn_of: TurnMaker) -> None:
    turn = await turn_of(
        calls("quick"),
        "Done.",
        tools=[MockTool("quick"), Keeper("slow", hangs=True)],
        tool_timeouts={"slow": 0.01},
    )
    turn.hooks.register("tool:selecting", Listener(modify({"tool": "slow"})))

    assert await turn.run() == "Done."

    assert turn.results[0].startswith("Timed out")
    assert turn.told("tool:error")[0]["tool_name"] == "slow"


async def test_a_turn_that_is_cancelled_while_a_scheduler_thinks_leaves_a_valid_history(
    turn_of: TurnMaker,
) -> None:
    thinks = asyncio.Event()

    async def scheduler(event: str, data: dict[str, Any]) -> HookResult:
        thinks.set()
        await asyncio.Event().wait()
        return HookResult()

    a = Keeper("a")
    turn = await turn_of(calls("a"), "Never.", tools=[a])
    turn.hooks.register("tool:selecting", scheduler)
    async with asyncio.timeout(120):
        running = asyncio.create_task(turn.run())
        await thinks.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert a.given == []
    assert turn.context.messages[-1]["name"] == "a"
    assert broken_pairs(turn.context.messages) == []
