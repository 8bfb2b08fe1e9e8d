"""Tests of the limits on the calls of one answer: how many run at a time, how many are accepted."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from amplifier_core import ChatResponse, ModuleLoader, TextBlock, ToolCallBlock
from amplifier_core.testing import MockCoordinator, MockTool
from amplifier_module_loops import tool_calls
from amplifier_module_loops.limits import DEADLINE
from amplifier_module_loops.tool_calls import first_calls
from contract.doubles import Display, Listener, broken_pairs
from contract.turns import Turn, calls

LOOPS = ["loop-basic", "loop-streaming", "loop-events"]


class Counting:
    """A tool that counts how many of its calls run, and lets the later calls end first."""

    name = "count"
    description = "Counts."

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.began: list[int] = []

    async def execute(self, input: dict[str, Any]) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        self.began.append(input["n"])
        for _ in range(30 - input["n"]):
            await asyncio.sleep(0)
        self.running -= 1
        return f"result {input['n']}"


async def turn_of(
    name: str, count: int, tool: Any, *more_tools: Any, **config: Any
) -> tuple[Turn, Listener]:
    """Make a turn in which the model calls `tool` `count` times, then the others, then answers."""
    coordinator = MockCoordinator()
    mount = await ModuleLoader().load(name, config)
    await mount(coordinator)
    names = [tool.name] * count + [each.name for each in more_tools]
    tools = (tool, *more_tools)
    turn = Turn(coordinator.get("orchestrator"), calls(*names), "Done.", tools=tools)
    turn.coordinator.display_system = Display()
    dropped = Listener()
    turn.hooks.register("orchestrator:calls_dropped", dropped)
    return turn, dropped


@pytest.mark.attack("review M1")
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize(("limit", "expected"), [({}, 8), ({"parallel_calls": 3}, 3)])
async def test_no_more_calls_run_at_a_time_than_the_limit_and_none_is_lost(
    name: str, limit: dict[str, int], expected: int
) -> None:
    tool = Counting()
    turn, _ = await turn_of(name, 25, tool, **limit)

    assert await turn.run() == "Done."

    assert tool.most == expected
    assert tool.began == list(range(1, 26))
    assert turn.results == [f"result {number}" for number in range(1, 26)]


async def test_a_tool_that_does_not_stop_keeps_no_call_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_calls, "_GRACE_SECONDS", 0.01)
    release = asyncio.Event()

    class Stubborn:
        name = "stubborn"
        description = "Does not stop."

        async def execute(self, input: dict[str, Any]) -> str:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return "late"

    timeouts = {"stubborn": 0.02}
    quick = MockTool("quick", "ok")
    turn, _ = await turn_of(
        "loop-basic", 2, Stubborn(), quick, parallel_calls=1, tool_timeouts=timeouts
    )

    assert await turn.run() == "Done."

    assert [each.split(".")[0] for each in turn.results] == ["Timed out after 0"] * 2 + ["ok"]
    release.set()
    await asyncio.sleep(0)


async def test_a_session_that_is_to_stop_starts_no_call_that_waits() -> None:
    class Stopping:
        name = "stop"
        description = "Cancels the session, then ends as usual."
        count = 0

        async def execute(self, input: dict[str, Any]) -> str:
            self.count += 1
            turn.coordinator.cancellation.request_graceful()
            await asyncio.sleep(0)
            return "ended"

    tool = Stopping()
    turn, _ = await turn_of("loop-basic", 4, tool, parallel_calls=2)

    await turn.run()

    assert tool.count == 1
    assert turn.results[0] == "ended"
    assert all("the session was cancelled" in each for each in turn.results[1:])
    assert broken_pairs(turn.context.messages) == []


async def test_calls_whose_turn_comes_after_the_deadline_are_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool = Counting()
    turn, _ = await turn_of("loop-basic", 3, tool, parallel_calls=1)
    # The time of the turn is used up once the first call has begun.
    monkeypatch.setattr(tool_calls, "monotonic", lambda: math.inf if tool.began else 0.0)

    await turn.run()

    assert turn.results == ["result 1", DEADLINE.refusal, DEADLINE.refusal]


async def test_a_cancelled_turn_marks_the_calls_that_wait_as_interrupted() -> None:
    started = asyncio.Event()

    class Waiting:
        name = "wait"
        description = "Waits."

        async def execute(self, input: dict[str, Any]) -> None:
            started.set()
            await asyncio.Event().wait()

    turn, _ = await turn_of("loop-basic", 5, Waiting(), parallel_calls=2)
    running = asyncio.create_task(turn.run())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert len(turn.results) == 5
    assert all("[interrupted]" in each for each in turn.results)
    assert broken_pairs(turn.context.messages) == []


@pytest.mark.attack("review L7")
@pytest.mark.parametrize("name", LOOPS)
async def test_calls_above_the_limit_are_dropped_and_the_model_the_hooks_and_the_user_know(
    name: str,
) -> None:
    tool = MockTool("t", "ok")
    turn, dropped = await turn_of(name, 1_000, tool)

    assert await turn.run() == "Done."

    assert turn.results == ["ok"] * 128
    assert broken_pairs(turn.context.messages) == []
    assert {key: dropped.data[key] for key in ("calls", "accepted", "dropped")} == {
        "calls": 1_000,
        "accepted": 128,
        "dropped": 872,
    }
    told = turn.provider.requests[1].messages[-1].content
    assert "the other 872 were not run" in str(told)
    assert "872 of them were not run" in turn.coordinator.display_system.shown[0][0]


@pytest.mark.attack("review L7")
def test_the_blocks_of_dropped_calls_leave_the_answer_and_no_others() -> None:
    made = calls("t", "t", "t")
    blocks = [ToolCallBlock(id=call.id, name=call.name, input={}) for call in made]
    said = TextBlock(text="said")
    answer = ChatResponse(content=[said, *blocks], tool_calls=made, metadata={"kept": True})

    cut, kept = first_calls(answer, made, 2)

    assert kept == made[:2]
    assert cut.content == [said, *blocks[:2]]
    assert (cut.tool_calls, cut.metadata) == (made[:2], {"kept": True})


async def test_as_many_calls_as_are_accepted_are_not_reported() -> None:
    turn, dropped = await turn_of("loop-basic", 4, MockTool("t", "ok"), max_calls=4)

    await turn.run()

    assert turn.results == ["ok"] * 4
    assert dropped.calls == []
