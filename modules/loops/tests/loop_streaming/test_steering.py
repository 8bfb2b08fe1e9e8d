"""Tests of text that is sent while a turn runs: it reaches the next step, once, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import ChatRequest, ChatResponse, ProviderInfo
from amplifier_core.testing import MockCoordinator, MockTool
from amplifier_module_loops.loop_streaming import mount
from contract.doubles import Display, Listener, broken_pairs, deny
from contract.installer import ScriptedProvider, response
from contract.turns import Turn, calls


def said(turn: Turn) -> list[str]:
    """Give what the user said, as it is stored."""
    return [each["content"] for each in turn.context.messages if each["role"] == "user"]


def steering(turn: Turn, text: str, answer: Any) -> Callable[[ChatRequest], Any]:
    """Make an answer that is given while the user says something."""

    async def speak(_: ChatRequest) -> ChatResponse:
        turn.loop.steer(text)
        return response(answer)

    return speak


async def test_text_sent_during_a_step_is_read_in_the_next_one(turn_of: Any) -> None:
    turn = await turn_of(tools=[MockTool("t")])
    turn.provider = ScriptedProvider(steering(turn, "Mind the gap.", calls("t")), "Done.")

    assert await turn.run("go") == "Done."

    assert said(turn) == ["go", "Mind the gap."]
    assert turn.provider.requests[1].messages[-1].content == "Mind the gap."
    assert turn.told("orchestrator:steering_injected") == [
        {**turn.told("orchestrator:steering_injected")[0], "text": "Mind the gap.", "count": 1}
    ]
    assert broken_pairs(turn.context.messages) == []


async def test_text_sent_during_the_last_answer_gets_an_answer_too(turn_of: Any) -> None:
    turn = await turn_of()
    turn.provider = ScriptedProvider(steering(turn, "And the other?", "One."), "Both.")

    assert await turn.run() == "Both."

    assert said(turn) == ["hi", "And the other?"]
    assert turn.told("orchestrator:complete")[0]["stop_reason"] == "completed"


async def test_blank_text_is_not_worth_a_step(turn_of: Any) -> None:
    turn = await turn_of()
    turn.provider = ScriptedProvider(steering(turn, " \n", "One."), "Never.")

    assert await turn.run() == "One."


async def test_what_a_limit_leaves_waiting_begins_the_next_turn_and_is_told_of(
    turn_of: Any,
) -> None:
    turn = await turn_of(max_iterations=0)
    turn.coordinator.display_system = Display()
    turn.provider = ScriptedProvider(steering(turn, "Too late?", "One."), "Two.")

    assert await turn.run("first") == "One."
    assert said(turn) == ["first"]
    assert turn.told("orchestrator:steering_waiting")[0]["count"] == 1
    assert "the next begins with it" in turn.coordinator.display_system.shown[-1][0]
    assert await turn.run("second") == "Two."

    assert said(turn) == ["first", "Too late?", "second"]


@pytest.mark.parametrize("failure", [RuntimeError("boom"), asyncio.CancelledError()])
async def test_a_turn_that_fails_leaves_it_to_the_next(
    turn_of: Any, failure: BaseException
) -> None:
    turn = await turn_of()

    async def fail(_: ChatRequest) -> ChatResponse:
        turn.loop.steer("Still there?")
        raise failure

    turn.provider = ScriptedProvider(fail, "Yes.")

    with pytest.raises((RuntimeError, asyncio.CancelledError)):
        await turn.run("first")
    assert await turn.run("second") == "Yes."

    assert said(turn) == ["first", "Still there?", "second"]


async def test_a_denied_prompt_keeps_it_waiting(turn_of: Any) -> None:
    turn = await turn_of("Yes.")
    remove = turn.hooks.register("prompt:submit", Listener(deny()))
    turn.loop.steer("Hello?")

    await turn.run("first")
    assert said(turn) == []
    remove()
    await turn.run("second")

    assert said(turn) == ["Hello?", "second"]


async def test_what_the_memory_refuses_is_offered_again(turn_of: Any) -> None:
    turn = await turn_of("Yes.")
    turn.loop.steer("Hello?")
    turn.context.add_message.side_effect = OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await turn.run("first")
    turn.context.add_message.side_effect = turn.context._add_message
    await turn.run("second")

    assert said(turn) == ["Hello?", "second"]


class Slow:
    """A memory, a model and a tool that let others run before and after all they do."""

    name, description = "t", "Lets others run."

    def __init__(self, at_point: Callable[[], None]) -> None:
        self.at_point = at_point
        self.messages: list[dict[str, Any]] = []
        self.steps = 0

    async def pause(self) -> None:
        self.at_point()
        await asyncio.sleep(0)

    async def add_message(self, message: dict[str, Any]) -> None:
        await self.pause()
        self.messages.append(message)
        await self.pause()

    async def get_messages_for_request(self, **_: Any) -> list[dict[str, Any]]:
        await self.pause()
        return list(self.messages)

    async def complete(self, request: ChatRequest, **_: Any) -> ChatResponse:
        await self.pause()
        self.steps += 1
        return response(calls("t") if self.steps % 3 else "Done.")

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="p", display_name="P")

    def parse_tool_calls(self, response: ChatResponse) -> Any:
        return list(response.tool_calls or ())

    async def execute(self, input: dict[str, Any]) -> str:
        await self.pause()
        return "ok"


class Session:
    """Runs turns in which, at numbered points, text arrives or the turn is cancelled."""

    def __init__(self, arrivals: dict[int, int], cancellations: set[int]) -> None:
        self.arrivals, self.cancellations = arrivals, cancellations
        self.points, self.sent = 0, list[str]()
        self.everything = Slow(self.at_point)
        self.running: asyncio.Task[Any] | None = None

    def at_point(self) -> None:
        self.points += 1
        for _ in range(self.arrivals.get(self.points, 0)):
            self.sent.append(f"text {len(self.sent)}")
            self.loop.steer(self.sent[-1])
        if self.points in self.cancellations and self.running is not None:
            self.running.cancel()

    async def run(self, turns: int) -> None:
        coordinator = MockCoordinator()
        await mount(coordinator)
        self.loop: Any = coordinator.get("orchestrator")
        parts = self.everything
        for number in range(turns):
            # In the last turn nothing comes between: it delivers whatever still waits.
            if number == turns - 1:
                self.arrivals.clear()
                self.cancellations.clear()
            turn = self.loop.execute(
                f"prompt {number}", parts, {"p": parts}, {"t": parts}, coordinator.hooks
            )
            running = self.running = asyncio.ensure_future(turn)
            await asyncio.wait([running], timeout=120)
            assert running.done()


@given(
    st.dictionaries(st.integers(1, 60), st.integers(1, 3), max_size=8),
    st.sets(st.integers(1, 60), max_size=4),
)
def test_text_is_never_lost_and_never_stored_twice(
    arrivals: dict[int, int], cancellations: set[int]
) -> None:
    async def check() -> None:
        session = Session(arrivals, cancellations)
        await session.run(turns=4 + len(cancellations))

        stored = [each["content"] for each in session.everything.messages]
        assert [text for text in stored if str(text).startswith("text ")] == session.sent

    asyncio.run(check())
