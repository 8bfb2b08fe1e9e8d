"""Tests of running tools: what the model reads of their results, and tools that misbehave."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from datetime import UTC, datetime
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest

from amplifier_core import HookResult, TextBlock, ToolResult
from amplifier_kit.tools import broken_input
from amplifier_module_loops import tool_calls
from contract.doubles import Listener, broken_pairs, deny, inject
from contract.requirements import requirement
from contract.turns import Turn, calls, loop


class Tool:
    """A tool that returns, raises or awaits what a test gave it."""

    description = "Does as it is told."

    def __init__(self, outcome: Any, name: str = "t") -> None:
        self.outcome, self.name = outcome, name

    async def execute(self, input: dict[str, Any]) -> Any:
        outcome: Any = self.outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return await outcome() if isinstance(outcome, FunctionType) else outcome


async def turn_with(*tools: Tool) -> Turn:
    """Make a turn in which the model calls each tool once and then answers."""
    names = [tool.name for tool in tools]
    return Turn(await loop(), calls(*names), "Done.", tools=tools)


@requirement("ORCH-12")
@pytest.mark.parametrize(
    ("outcome", "read"),
    [
        (ToolResult(output="text"), "text"),
        (ToolResult(output={"n": 1}), '{"n": 1}'),
        (ToolResult(success=False, error={"message": "no file"}), "no file"),
        ({"success": True, "output": "text"}, "text"),
        ({"success": True, "output": {"n": 1}}, '{"n": 1}'),
        ({"success": False, "error": {"message": "no"}}, '{"message": "no"}'),
        ("plain text", "plain text"),
        ({"any": "dict"}, '{"any": "dict"}'),
        ([1, 2], "[1, 2]"),
        (None, "null"),
    ],
)
async def test_the_model_reads_the_text_of_a_result(outcome: Any, read: str) -> None:
    turn = await turn_with(Tool(outcome))

    assert await turn.run() == "Done."

    assert turn.results == [read]


class EndOfTurn(BaseException):
    """What stands between the loop and its tools may end the turn with."""


async def test_of_tools_that_end_the_turn_together_none_ends_unseen() -> None:
    unseen: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))

    async def end() -> None:
        await asyncio.sleep(0)
        raise EndOfTurn

    turn = await turn_with(Tool(end, "t1"), Tool(end, "t2"))
    with pytest.raises(EndOfTurn):
        await turn.run()

    del turn
    gc.collect()
    assert unseen == []


@requirement("ORCH-12")
async def test_rich_content_reaches_the_model_as_blocks() -> None:
    turn = await turn_with(Tool(ToolResult(output="x", content=[TextBlock(text="rich")])))

    await turn.run()

    assert [block["text"] for block in turn.results[0]] == ["rich"]
    sent: Any = turn.provider.requests[1].messages[-1].content
    assert sent[0].text == "rich"


@requirement("ORCH-4")
@pytest.mark.parametrize(
    "outcome",
    [
        ToolResult(output={"when": datetime(2030, 1, 1, tzinfo=UTC)}),
        ToolResult(output={"keys": {(1, 2): "odd"}}),
        {"success": True, "output": {(1, 2): "odd"}},
        {(1, 2): "odd"},
        SimpleNamespace(content="text where blocks should be"),
    ],
    ids=["a date in a result", "keys in a result", "keys in a dict", "keys", "text for blocks"],
)
async def test_a_result_that_cannot_be_written_down_does_not_end_the_turn(outcome: Any) -> None:
    turn = await turn_with(Tool(outcome))

    assert await turn.run() == "Done."

    assert len(turn.results) == 1
    assert "interrupted" not in turn.results[0]
    json.dumps(turn.context.messages)


@requirement("ORCH-4")
@pytest.mark.parametrize("number", [1, 2])
async def test_a_tool_that_cancels_itself_has_failed_and_the_turn_goes_on(number: int) -> None:
    """Nobody asked the turn to stop: the CancelledError leaked from a task of the tool's own."""
    tools = [Tool(asyncio.CancelledError(), f"t{each}") for each in range(number)]
    turn = await turn_with(*tools)

    assert await turn.run() == "Done."

    assert [data["error"]["type"] for data in turn.told("tool:error")] == [
        "CancelledError"
    ] * number
    assert broken_pairs(turn.context.messages) == []


@requirement("ORCH-4")
async def test_an_unknown_tool_is_answered_with_the_ones_there_are() -> None:
    turn = Turn(await loop(), calls("made_up"), calls("made_up"), "Done.")
    turn.tools["t"] = Tool("ok")

    await turn.run()

    assert "there is no tool `made_up`; available: t" in turn.results[0]
    turn.tools.clear()
    other = Turn(await loop(), calls("made_up"), "Done.")
    await other.run()
    assert "available: none" in other.results[0]


@requirement("TOOL-1")
async def test_a_tool_is_called_by_its_own_name_wherever_it_is_mounted() -> None:
    turn = Turn(await loop(), calls("my_tool"), "Done.")
    turn.tools["my-tool"] = Tool("worked", "my_tool")

    await turn.run()

    assert turn.results == ["worked"]


@pytest.mark.attack("K1")
@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (HookResult(), "LookupError: secret"),
        (HookResult(action="modify", data={"error": {"msg": "[blank]"}}), "LookupError: [blank]"),
        (HookResult(action="modify", data={"error": "[blank]"}), "LookupError: [blank]"),
        (HookResult(action="modify", data={"withheld": "all"}), "LookupError"),
        (deny("contains secrets"), "LookupError"),
    ],
)
async def test_the_model_reads_of_an_error_what_the_hooks_leave_of_it(
    answer: HookResult, read: str
) -> None:
    turn = await turn_with(Tool(LookupError("secret")))
    turn.hooks.register("tool:error", Listener(answer))

    await turn.run()

    assert turn.results == [f"Error executing tool: {read}"]


@requirement("ORCH-8")
async def test_a_result_that_a_hook_denies_is_not_shown() -> None:
    turn = await turn_with(Tool("secret"))
    turn.hooks.register("tool:post", Listener(deny("contains secrets")))

    await turn.run()

    assert turn.results == ["Denied by hook: contains secrets"]


@requirement("ORCH-5", "ORCH-12")
@pytest.mark.parametrize("name", ["result", "tool_result"])
async def test_a_result_may_be_edited_under_either_of_its_names(name: str) -> None:
    turn = await turn_with(Tool(ToolResult(output="secret")))

    def redact(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, name: {"success": True, "output": "***"}})

    turn.hooks.register("tool:post", redact)

    await turn.run()

    assert turn.results == ["***"]


@requirement("ORCH-12")
async def test_an_edit_that_forgets_the_result_leaves_it_as_it_was() -> None:
    turn = await turn_with(Tool(ToolResult(output="kept")))
    turn.hooks.register("tool:post", Listener(HookResult(action="modify", data={"only": 1})))

    await turn.run()

    assert turn.results == ["kept"]


@requirement("ORCH-9")
async def test_an_edit_that_forgets_the_input_leaves_it_as_it_was() -> None:
    turn = await turn_with(Tool("ok"))
    turn.hooks.register("tool:pre", Listener(HookResult(action="modify", data={"only": 1})))

    await turn.run()

    assert turn.told("tool:post")[0]["tool_input"] == {"n": 1}


@requirement("ORCH-17", "ORCH-19")
async def test_a_hook_that_breaks_one_call_does_not_cost_the_results_of_the_others() -> None:
    turn = await turn_with(Tool("a", "a"), Tool("b", "b"))
    turn.coordinator.config["session"]["injection_size_limit"] = 3

    def flood(event: str, data: dict[str, Any]) -> HookResult:
        return inject("far too long") if data["tool_name"] == "b" else HookResult()

    turn.hooks.register("tool:post", flood)

    with pytest.raises(ValueError, match="exceeds 3 characters"):
        await turn.run()

    assert turn.results[0] == "a"
    assert broken_pairs(turn.context.messages) == []


@requirement("ORCH-19")
async def test_a_tool_that_ignores_its_cancellation_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tool_calls, "_GRACE_SECONDS", 0.01)
    started, release = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    async def obedient() -> None:
        try:
            await release.wait()
        finally:
            let_go.append("obedient")

    let_go: list[str] = []
    tools = Tool("quick", "quick"), Tool(obedient, "obedient"), Tool(stubborn, "stubborn")
    turn = await turn_with(*tools)
    async with asyncio.timeout(120):
        running = asyncio.create_task(turn.run())
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    stored = list(turn.results)
    release.set()
    await asyncio.sleep(0)

    assert stored[0] == "quick"
    assert all("[interrupted]" in each for each in stored[1:])
    assert let_go == ["obedient"]
    assert "count=1" in caplog.text
    assert turn.results == stored


@requirement("ORCH-19")
async def test_the_token_knows_which_tools_run_and_forgets_them_afterwards() -> None:
    seen: list[list[str]] = []

    async def look() -> str:
        seen.append(turn.coordinator.cancellation.running_tool_names)
        return "ok"

    turn = await turn_with(Tool(look, "a"), Tool(RuntimeError("boom"), "b"))

    await turn.run()

    assert seen == [["a"]]
    assert turn.coordinator.cancellation.running_tools == set()


@pytest.mark.parametrize(("event", "ran"), [("tool:pre", False), ("tool:post", True)])
async def test_a_denied_call_is_announced_with_its_reason_and_whether_it_ran(
    event: str, ran: bool
) -> None:
    turn = await turn_with(Tool("secret"))
    turn.hooks.register(event, Listener(deny("not here")))
    heard = Listener()
    turn.hooks.register("tool:denied", heard)

    await turn.run()

    facts = heard.data
    assert (facts["tool_name"], facts["reason"], facts["ran"]) == ("t", "not here", ran)


# --- before a call --------------------------------------------------------------------------------


class Looking(Tool):
    """A tool that has something against every call."""

    input_schema: dict[str, Any] = {"type": "object", "properties": {}}

    async def preflight(self, given: dict[str, Any]) -> str:
        return "it is not there"


async def test_a_call_that_its_tool_objects_to_is_not_announced_and_not_run() -> None:
    turn = await turn_with(Looking(RuntimeError("it ran")))

    await turn.run()

    assert turn.told("tool:pre") == []
    assert turn.results == ["Error executing tool: ValueError: it is not there"]


async def test_of_several_calls_only_the_first_is_looked_at() -> None:
    turn = await turn_with(Looking("never"), Looking("ran", "u"))

    await turn.run()

    assert turn.results == ["Error executing tool: ValueError: it is not there", "ran"]


async def test_a_call_whose_arguments_could_not_be_read_is_answered_and_not_run() -> None:
    tool = Tool(RuntimeError("it ran"))
    [call] = calls("t")
    broken = call.model_copy(update={"arguments": broken_input('{"n": ', "are not JSON: here")})
    turn = Turn(await loop(), [broken], "Done.", tools=[tool])

    assert await turn.run() == "Done."

    [said] = turn.results
    assert "the arguments are not JSON: here" in said
    assert turn.told("tool:pre") == []
    assert [each["error"]["type"] for each in turn.told("tool:error")] == ["ValueError"]


async def test_an_unknown_tool_is_never_announced_to_those_who_ask() -> None:
    turn = Turn(await loop(), calls("missing"), "Done.")

    await turn.run()

    assert turn.told("tool:pre") == []
    assert "there is no tool `missing`; available: none" in turn.results[0]


async def test_a_tool_may_be_a_plain_function_and_runs_in_a_thread() -> None:
    class Plain:
        name = "plain"
        description = "Not async."
        input_schema: dict[str, Any] = {"type": "object", "properties": {}}

        def execute(self, input: dict[str, Any]) -> ToolResult:
            return ToolResult(output=threading.current_thread() is threading.main_thread())

    turn = Turn(await loop(), calls("plain"), "Done.", tools=[Plain()])

    assert await turn.run() == "Done."

    assert turn.results == ["False"]
