"""Tests of ending a turn from outside: who is interrupted, who is not, and what is left behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession, SessionError
from amplifier_core.history import INTERRUPTED
from contract.doubles import Listener, broken_pairs, raising
from contract.installer import Installer
from contract.requirements import requirement


def call(*names: str) -> dict[str, Any]:
    """A stored message that makes one call per name."""
    calls: list[Any] = [{"id": name, "tool": "bash", "arguments": {}} for name in names]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def result(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "name": "bash", "content": "done"}


def says(role: str, text: str = "text") -> dict[str, Any]:
    return {"role": role, "content": text}


async def failed_on(installed: Installer, history: list[dict[str, Any]]) -> Listener:
    """Let a turn fail after the history was built up; gives who heard of repairs."""
    heard = Listener()
    session = AmplifierSession(installed.basics())
    session.coordinator.hooks.register("context:repaired", heard)
    installed.loop.act = raising(RuntimeError("boom"))
    installed.memory.messages = list(history)
    await session.initialize()
    with pytest.raises(RuntimeError, match="boom"):
        await session.execute("hi")
    return heard


@requirement("LAW-23")
async def test_the_calls_of_a_failed_turn_are_answered_in_call_order(installed: Installer) -> None:
    history = [says("user"), call("a", "b", "c"), result("b")]

    heard = await failed_on(installed, history)

    answers = installed.memory.messages[3:]
    assert [each["tool_call_id"] for each in answers] == ["a", "c"]
    assert {(each["name"], each["content"]) for each in answers} == {("bash", INTERRUPTED)}
    assert broken_pairs(installed.memory.messages) == []
    assert heard.data["repairs"] == [
        {"kind": "answered", "tool_call_id": "a"},
        {"kind": "answered", "tool_call_id": "c"},
    ]


@requirement("LAW-23")
@pytest.mark.parametrize(
    "history",
    [
        [],
        [says("user")],
        [says("user"), says("assistant")],
        [says("user"), call("a"), result("a")],
        [says("user"), call("a"), says("user")],
        [says("user"), call("old"), says("user"), says("assistant")],
        [call("old"), says("user"), call("a"), result("a")],
    ],
    ids=["empty", "asked", "answered", "complete", "passed by", "old orphan", "older orphan"],
)
async def test_a_history_is_left_alone_when_an_answer_would_stand_in_the_wrong_place(
    installed: Installer, history: list[dict[str, Any]]
) -> None:
    heard = await failed_on(installed, history)

    assert installed.memory.messages == history
    assert heard.calls == []


@requirement("LAW-23")
async def test_an_old_orphan_does_not_keep_the_last_calls_from_their_answers(
    installed: Installer,
) -> None:
    history = [call("old"), says("user"), call("a")]

    await failed_on(installed, history)

    assert [each["tool_call_id"] for each in installed.memory.messages[3:]] == ["a"]


async def test_a_context_that_fails_does_not_hide_why_the_turn_failed(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    installed.memory.get_messages = raising(OSError("disk gone"))

    await failed_on(installed, [])

    assert "history not closed" in caplog.text
    assert "disk gone" in caplog.text


class Turns:
    """A session of a loop that waits, and lets a test look at the task that runs its turn."""

    def __init__(self, installed: Installer) -> None:
        self.started = asyncio.Event()
        self.never = asyncio.Event()
        self.swallows = False
        installed.loop.act = self.act
        self.session = AmplifierSession(installed.basics())
        self.token = self.session.coordinator.cancellation

    async def act(self, **_: Any) -> str:
        self.started.set()
        try:
            await self.never.wait()
        except asyncio.CancelledError:
            if not self.swallows:
                raise
        return "stopped"

    async def caller(self) -> tuple[Any, int]:
        """Run a turn; gives the outcome and how many cancellations are left on this task."""
        outcome: Any
        try:
            outcome = await self.session.execute("hi")
        except asyncio.CancelledError as error:
            outcome = error
        task = asyncio.current_task()
        assert task is not None
        return outcome, task.cancelling()


@requirement("LAW-22", "SESS-41")
@pytest.mark.parametrize("swallows", [True, False])
async def test_an_interruption_does_not_outlive_the_turn(
    installed: Installer, swallows: bool
) -> None:
    turns = Turns(installed)
    turns.swallows = swallows
    async with asyncio.timeout(120):
        await turns.session.initialize()
        calling = asyncio.create_task(turns.caller())
        await turns.started.wait()
        turns.token.request_immediate()
        outcome, left = await calling

    assert isinstance(outcome, str if swallows else asyncio.CancelledError)
    assert left == 0
    assert turns.session.status.status == "cancelled"


@requirement("LAW-22")
async def test_a_second_request_after_a_reset_does_not_outlive_the_turn_either(
    installed: Installer,
) -> None:
    turns = Turns(installed)
    interrupted: list[int] = []

    async def stubborn(**_: Any) -> str:
        turns.started.set()
        while len(interrupted) < 2:
            try:
                await turns.never.wait()
            except asyncio.CancelledError:
                interrupted.append(1)
                turns.token.reset()
                turns.started.set()
        return "stopped"

    installed.loop.act = stubborn
    async with asyncio.timeout(120):
        await turns.session.initialize()
        calling = asyncio.create_task(turns.caller())
        for _ in range(2):
            await turns.started.wait()
            turns.started.clear()
            turns.token.request_immediate()
        outcome, left = await calling

    assert (outcome, left) == ("stopped", 0)


@requirement("LAW-22")
async def test_a_request_that_came_before_the_turn_interrupts_it_too(installed: Installer) -> None:
    """The request may come while the start of the session is still being announced."""
    turns = Turns(installed)

    async def stop(event: str, data: dict[str, Any]) -> None:
        turns.token.request_immediate()

    turns.session.coordinator.hooks.register("session:start", stop)
    async with asyncio.timeout(120):
        await turns.session.initialize()
        outcome, left = await turns.caller()

    assert isinstance(outcome, asyncio.CancelledError)
    assert left == 0


@pytest.mark.parametrize("swallows", [True, False])
async def test_a_cancellation_of_the_caller_is_not_lost_in_an_interruption(
    installed: Installer, swallows: bool
) -> None:
    """Both arrive at once; the loop cannot tell them apart, the session must."""
    turns = Turns(installed)
    turns.swallows = swallows
    async with asyncio.timeout(120):
        await turns.session.initialize()
        calling = asyncio.create_task(turns.session.execute("hi"))
        await turns.started.wait()
        turns.token.request_immediate()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    assert calling.cancelling() == 1


async def test_a_cancellation_that_comes_while_a_turn_is_being_settled_is_not_lost(
    installed: Installer,
) -> None:
    turns = Turns(installed)

    async def act(**_: Any) -> str:
        turns.started.set()
        try:
            await turns.never.wait()
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_soon(calling.cancel)
        return "stopped"

    installed.loop.act = act
    async with asyncio.timeout(120):
        await turns.session.initialize()
        calling = asyncio.create_task(turns.session.execute("hi"))
        await turns.started.wait()
        turns.token.request_immediate()
        with pytest.raises(asyncio.CancelledError):
            await calling

    assert calling.cancelling() == 1
    assert turns.session.status.status == "cancelled"


async def test_a_deadline_of_the_caller_ends_the_turn_and_stays_its_own(
    installed: Installer,
) -> None:
    turns = Turns(installed)
    await turns.session.initialize()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await turns.session.execute("hi")

    assert turns.session.status.status == "failed"


async def test_a_turn_of_a_task_that_was_cancelled_before_can_be_interrupted(
    installed: Installer,
) -> None:
    """As when a session says goodbye while its program shuts down."""
    turns = Turns(installed)
    turns.swallows = True
    outcomes: list[Any] = []

    async def shut_down() -> None:
        try:
            await turns.never.wait()
        finally:
            outcomes.append(await turns.caller())

    async with asyncio.timeout(120):
        await turns.session.initialize()
        closing = asyncio.create_task(shut_down())
        await asyncio.sleep(0)
        closing.cancel()
        await turns.started.wait()
        turns.token.request_immediate()
        with pytest.raises(asyncio.CancelledError):
            await closing

    assert outcomes == [("stopped", 1)]


@requirement("LAW-22")
async def test_putting_an_interruption_in_order_waits_for_nothing(
    installed: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns(installed)
    loop = asyncio.get_running_loop()
    timers: list[float] = []
    call_at = loop.call_at

    def noting(when: float, *args: Any, **kwargs: Any) -> Any:
        timers.append(when)
        return call_at(when, *args, **kwargs)

    async with asyncio.timeout(120):
        await turns.session.initialize()
        calling = asyncio.create_task(turns.caller())
        await turns.started.wait()
        monkeypatch.setattr(loop, "call_at", noting)
        turns.token.request_immediate()
        await calling
        monkeypatch.undo()

    assert timers == []


@requirement("LAW-22")
async def test_a_request_that_comes_as_the_turn_ends_does_not_reach_the_caller(
    installed: Installer,
) -> None:
    async def stop_last(**_: Any) -> str:
        session.coordinator.cancellation.request_immediate()
        return "answered"

    installed.loop.act = stop_last
    async with AmplifierSession(installed.basics()) as session:
        assert await session.execute("hi") == "answered"
        for _ in range(3):
            await asyncio.sleep(0)

    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_turn_that_was_refused_for_lack_of_a_context_has_no_history_to_close(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    session = AmplifierSession(installed.basics())
    await session.initialize()
    session.coordinator.mount_points["context"] = None

    with pytest.raises(SessionError, match="No context manager mounted"):
        await session.execute("hi")

    assert "history not closed" not in caplog.text
