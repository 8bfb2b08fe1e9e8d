"""Demonstrations of cancellation: it interrupts what hangs and leaves a history that can go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ToolResult
from contract.doubles import broken_pairs
from contract.installer import Installer
from contract.requirements import requirement
from contract.turns import calls, loop


class Hanging:
    """A provider's answer and a tool that hang until they are interrupted, and say so."""

    name = "hang"
    description = "Hangs."

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self.interrupted: list[str] = []

    async def hang(self, what: str) -> None:
        self.started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.interrupted.append(what)
            raise

    async def answer(self, request: Any) -> Any:
        await self.hang("provider")

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        await self.hang("tool")
        return ToolResult(output="finished")


async def foreign(context: Any, providers: Any, tools: Any, prompt: str, **_: Any) -> str:
    """Act as a loop of somebody else's, which knows nothing of cancellation."""
    await context.add_message({"role": "user", "content": prompt})
    while True:
        provider = next(iter(providers.values()))
        response = await provider.complete(await context.get_messages_for_request())
        asked = provider.parse_tool_calls(response)
        message: dict[str, Any] = {"role": "assistant", "content": str(response.content)}
        if asked:
            message["tool_calls"] = [
                {"id": each.id, "tool": each.name, "arguments": each.arguments} for each in asked
            ]
        await context.add_message(message)
        if not asked:
            return response.content[0].text
        for each in asked:
            result = await tools[each.name].execute(each.arguments)
            await context.add_message(
                {"role": "tool", "tool_call_id": each.id, "content": result.output}
            )


class Harness:
    """A session of our loop or a foreign one in which the provider or the tool hangs."""

    def __init__(self, installed: Installer, ours: Any, hanging: str) -> None:
        self.memory, self.provider, self.part = installed.memory, installed.provider, Hanging()
        plan = installed.basics(tools=[{"module": "tool-hang"}])
        first: Any = self.part.answer if hanging == "provider" else calls("hang")
        installed.provider.answers = [first, "Going on."]
        installed.object("tool-hang", "tools", self.part)
        installed.loop.act = foreign
        installed.object("loop-test", "orchestrator", ours or installed.loop)
        self.session = AmplifierSession(plan)
        self.token = self.session.coordinator.cancellation
        self.left_cancelled: bool | None = None

    async def turn(self, prompt: str) -> str | None:
        """Run a turn as a caller would; None when it was cancelled."""
        try:
            return await self.session.execute(prompt)
        except asyncio.CancelledError:
            return None
        finally:
            task = asyncio.current_task()
            self.left_cancelled = task is not None and task.cancelling() > 0


def from_another_task(harness: Harness) -> None:
    harness.token.request_immediate()


def from_another_thread(harness: Harness) -> None:
    # Later, when the event loop sleeps: it must be woken, and not just told.
    threading.Timer(0.02, harness.token.request_immediate).start()


def from_the_parent(harness: Harness) -> None:
    """Not used on the session itself: its parent is asked to stop."""
    parent = AmplifierSession(harness.session.config)
    parent.coordinator.cancellation.register_child(harness.token)
    parent.coordinator.cancellation.request_immediate()


@requirement("LAW-22", "LAW-23", "SESS-41")
@pytest.mark.parametrize("request_stop", [from_another_task, from_another_thread, from_the_parent])
@pytest.mark.parametrize("hanging", ["provider", "tool"])
@pytest.mark.parametrize("whose", ["ours", "foreign"])
async def test_an_immediate_stop_interrupts_what_hangs_and_the_session_can_go_on(
    installed: Installer, whose: str, hanging: str, request_stop: Callable[[Harness], None]
) -> None:
    harness = Harness(installed, await loop() if whose == "ours" else None, hanging)
    async with asyncio.timeout(120):
        await harness.session.initialize()
        turn = asyncio.create_task(harness.turn("first"))
        await harness.part.started.wait()
        request_stop(harness)
        answer = await turn

        assert harness.part.interrupted == [hanging]
        assert answer in (None, "")
        assert harness.left_cancelled is False
        assert harness.session.status.status == "cancelled"
        assert broken_pairs(harness.memory.messages) == []
        harness.token.reset()
        assert await harness.turn("second") == "Going on."

    assert broken_pairs(harness.memory.messages) == []
    assert harness.session.status.status == "completed"


@requirement("LAW-12", "LAW-22")
async def test_an_immediate_stop_of_the_parent_interrupts_its_child(installed: Installer) -> None:
    parent = Harness(installed, None, "tool")
    async with asyncio.timeout(120), parent.session.fork() as child:
        turn = asyncio.create_task(child.execute("delegated"))
        await parent.part.started.wait()
        parent.token.request_immediate()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert parent.part.interrupted == ["tool"]
    assert child.status.status == "cancelled"
    assert broken_pairs(parent.memory.messages) == []


@requirement("LAW-22", "ORCH-19")
async def test_a_graceful_stop_lets_the_running_tool_finish(installed: Installer) -> None:
    harness = Harness(installed, await loop(), "tool")
    async with asyncio.timeout(120):
        await harness.session.initialize()
        turn = asyncio.create_task(harness.turn("first"))
        await harness.part.started.wait()
        await harness.session.coordinator.request_cancel()
        harness.part.release.set()
        await turn

    assert harness.part.interrupted == []
    assert harness.memory.messages[-1]["content"] == "finished"
    assert len(harness.provider.requests) == 1
    assert harness.session.status.status == "cancelled"
    assert broken_pairs(harness.memory.messages) == []


@requirement("LAW-22")
async def test_a_graceful_stop_can_become_an_immediate_one(installed: Installer) -> None:
    harness = Harness(installed, await loop(), "tool")
    async with asyncio.timeout(120):
        await harness.session.initialize()
        turn = asyncio.create_task(harness.turn("first"))
        await harness.part.started.wait()
        await harness.session.coordinator.request_cancel()
        await asyncio.sleep(0)
        assert harness.part.interrupted == []
        await harness.session.coordinator.request_cancel(immediate=True)
        await turn

    assert harness.part.interrupted == ["tool"]
    assert broken_pairs(harness.memory.messages) == []
