"""Tests of tools and turns that take too long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import ChatRequest, ChatResponse
from amplifier_core.testing import MockTool, wait_for
from amplifier_module_loops import tool_calls, tool_runs
from amplifier_module_loops import turn as turn_module
from amplifier_module_loops.limits import DEADLINE
from contract.doubles import Display, Listener, broken_pairs
from contract.installer import response
from contract.turns import Turn, calls, loop


class Slow:
    """A tool that waits for `release`, and lets go when cancelled unless it is stubborn."""

    description = "Takes its time."

    def __init__(self, name: str = "slow", *, stubborn: bool = False, fails: bool = False) -> None:
        self.name, self.stubborn, self.fails = name, stubborn, fails
        self.started, self.release = asyncio.Event(), asyncio.Event()

    async def execute(self, input: dict[str, Any]) -> str:
        self.started.set()
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise
        if self.fails:
            raise RuntimeError("failed late")
        return "late"


def hear(turn: Turn, *events: str) -> Turn:
    for event in events:
        turn.hooks.register(event, turn.heard)
    return turn


async def turn_with(*tools: Any, **config: Any) -> Turn:
    names = [tool.name for tool in tools]
    turn = Turn(await loop(**config), calls(*names), "Done.", tools=tools)
    turn.coordinator.display_system = Display()
    return hear(turn, "tool:abandoned", "orchestrator:last_step")


def shown(turn: Turn) -> str:
    return "\n".join(each[0] for each in turn.coordinator.display_system.shown)


async def test_a_tool_that_takes_too_long_is_answered_for_and_the_turn_goes_on() -> None:
    turn = await turn_with(MockTool("quick", "ok"), Slow(), tool_timeout_seconds=0.02)

    assert await turn.run() == "Done."

    assert turn.results[0] == "ok"
    assert turn.results[1].startswith("Timed out after 0.02 s.")
    assert [data["error"]["type"] for data in turn.told("tool:error")] == ["TimeoutError"]
    assert turn.told("tool:error")[0]["tool_name"] == "slow"
    assert "`slow` was stopped" in shown(turn)
    assert turn.told("tool:abandoned") == []
    assert broken_pairs(turn.context.messages) == []


@pytest.mark.parametrize("fails", [True, False])
async def test_a_tool_that_ignores_its_deadline_is_left_behind_and_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    monkeypatch.setattr(tool_calls, "_GRACE_SECONDS", 0.01)
    tool = Slow(stubborn=True, fails=fails)
    turn = await turn_with(tool, tool_timeout_seconds=0.02)

    assert await turn.run() == "Done."
    assert await wait_for(lambda: bool(turn.told("tool:abandoned")), timeout=120)
    tool.release.set()
    posts = len(turn.told("tool:post"))
    for _ in range(5):
        await asyncio.sleep(0)

    assert "does not stop when asked to" in shown(turn)
    assert turn.results[0].startswith("Timed out")
    assert turn.coordinator.cancellation.running_tools == set()
    assert ("failed late" in caplog.text) is fails
    assert len(turn.told("tool:post")) == posts == 0
    assert len(turn.told("tool:error")) == 1


async def test_a_cancelled_turn_ends_even_if_its_only_tool_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_calls, "_GRACE_SECONDS", 0.01)
    tool = Slow(stubborn=True)
    turn = await turn_with(tool)

    async with asyncio.timeout(120):
        running = asyncio.create_task(turn.run())
        await tool.started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    tool.release.set()
    await asyncio.sleep(0)

    assert "[interrupted]" in turn.results[0]
    assert [data["tool_name"] for data in turn.told("tool:abandoned")] == ["slow"]
    assert turn.told("tool:post") == []


@pytest.mark.parametrize(
    ("own", "config", "seconds"),
    [
        (0.02, {}, 0.02),
        (60, {"tool_timeouts": {"slow": 0.02}}, 0.02),
        (-1, {"tool_timeout_seconds": 0.03}, 0.03),
        ("soon", {"tool_timeout_seconds": 0.03}, 0.03),
        (True, {"tool_timeout_seconds": 0.03}, 0.03),
        (0.02, {"tool_timeout_seconds": None}, 0.02),
    ],
)
async def test_the_deadline_is_the_configured_one_or_the_tools_own_or_the_one_for_all(
    own: Any, config: dict[str, Any], seconds: float
) -> None:
    tool: Any = Slow()
    tool.deadline_seconds = own
    turn = await turn_with(tool, **config)

    await turn.run()

    assert turn.results[0].startswith(f"Timed out after {seconds:g} s.")


async def test_running_tools_are_announced_again_and_again() -> None:
    tools = [Slow("one"), Slow("two")]
    turn = await turn_with(*tools, heartbeat_seconds=0.01, tool_timeouts={"two": 60})

    def beat(event: str, data: dict[str, Any]) -> None:
        beats.append((data["tool_name"], data["elapsed_seconds"], data["deadline_seconds"]))
        if len(beats) >= 4:
            for tool in tools:
                tool.release.set()

    beats: list[tuple[str, float, float]] = []
    turn.hooks.register("tool:heartbeat", beat)

    assert await turn.run() == "Done."

    assert turn.results == ["late", "late"]
    assert {(name, deadline) for name, _, deadline in beats} == {("one", 600.0), ("two", 60.0)}
    elapsed = [seconds for name, seconds, _ in beats if name == "one"]
    assert elapsed == sorted(elapsed)
    assert elapsed[0] >= 0.009


async def test_a_tool_without_any_deadline_is_waited_for() -> None:
    tool = Slow()
    turn = await turn_with(tool, tool_timeout_seconds=None, turn_timeout_seconds=None)
    async with asyncio.timeout(120):
        running = asyncio.create_task(turn.run())
        await tool.started.wait()
        tool.release.set()
        await running

    assert turn.results == ["late"]


async def test_the_time_it_takes_to_allow_a_tool_is_not_the_tools() -> None:
    tool, allowed = Slow(), asyncio.Event()
    turn = await turn_with(tool, MockTool("other"), tool_timeouts={"slow": 0.02})

    async def think(event: str, data: dict[str, Any]) -> None:
        if data["tool_name"] == "slow":
            await allowed.wait()

    turn.hooks.register("tool:pre", think)
    async with asyncio.timeout(120):
        running = asyncio.create_task(turn.run())
        await asyncio.sleep(0.05)
        assert not running.done()
        assert turn.told("tool:error") == []
        allowed.set()
        await running

    assert turn.results[0].startswith("Timed out after 0.02 s.")


async def test_a_slow_listener_to_heartbeats_does_not_stop_the_clock() -> None:
    tool, heard = Slow(), asyncio.Event()
    turn = await turn_with(tool, heartbeat_seconds=0.01, tool_timeout_seconds=0.4)

    async def dawdle(event: str, data: dict[str, Any]) -> None:
        await asyncio.sleep(0.5)
        heard.set()

    turn.hooks.register("tool:heartbeat", dawdle)

    assert await turn.run() == "Done."
    assert heard.is_set()
    assert turn.results[0].startswith("Timed out")


async def test_at_the_deadline_of_the_turn_the_model_answers_with_what_it_has() -> None:
    turn = Turn(await loop(turn_timeout_seconds=0.5), calls("slow"), "So far.", tools=[Slow()])
    hear(turn, "orchestrator:last_step").coordinator.display_system = Display()

    assert await turn.run() == "So far."

    assert turn.results[0].startswith("Timed out after 0.")
    last = turn.provider.requests[-1]
    assert last.tools is None
    assert last.messages[-1].content == DEADLINE.notice
    (complete,) = turn.told("orchestrator:complete")
    assert (complete["stop_reason"], complete["status"]) == ("deadline", "incomplete")
    assert turn.told("orchestrator:last_step")[0]["stop_reason"] == "deadline"
    assert "the time is used up" in shown(turn)


async def test_a_call_that_comes_after_the_deadline_is_not_run() -> None:
    tool = MockTool("t")

    async def think(_: ChatRequest) -> ChatResponse:
        await asyncio.sleep(0.6)
        return response(calls("t"))

    turn = Turn(await loop(turn_timeout_seconds=0.5), think, "So far.", tools=[tool])

    assert await turn.run() == "So far."

    assert tool.call_count == 0
    assert turn.results == ["Not run: the time is used up."]


async def test_a_turn_ends_when_listening_to_its_tools_fails() -> None:
    """A listener cannot fail the turn, but the program may end while one listens."""
    tool = Slow()
    turn = await turn_with(tool, heartbeat_seconds=0.01)
    listening = Listener()
    turn.hooks.register("tool:heartbeat", listening)

    async with asyncio.timeout(120):
        running = asyncio.create_task(turn.run())
        await tool.started.wait()
        assert await wait_for(lambda: bool(listening.calls), timeout=120)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert "[interrupted]" in turn.results[0]


async def test_the_time_in_which_a_user_is_asked_is_not_the_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    for module in (tool_calls, turn_module, tool_runs):
        monkeypatch.setattr(module, "monotonic", lambda: now[0])
    turn = await turn_with(MockTool("a", "ok"), MockTool("b", "ok"), turn_timeout_seconds=60)

    async def wait_for_the_user(event: str, data: dict[str, Any]) -> None:
        now[0] += 1_800

    turn.hooks.register("tool:pre", wait_for_the_user)

    assert await turn.run() == "Done."
    assert turn.results == ["ok", "ok"]
    assert turn.told("orchestrator:last_step") == []
