"""Tests of swaps that meet turns, other swaps and cancellations at the same time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockTool
from contract.doubles import Listener, Memory
from contract.installer import Installer, ScriptedProvider, mounting
from contract.requirements import requirement


async def ready_session(installed: Installer, **sections: Any) -> tuple[AmplifierSession, Listener]:
    """Give an initialised session, and who hears of its swaps."""
    session = AmplifierSession(installed.basics(**sections))
    heard = Listener()
    for event in ("module:swapped", "module:rolled_back"):
        session.coordinator.hooks.register(event, heard)
    await session.initialize()
    return session, heard


class Gates:
    """A loop whose turns wait for a gate of their own, named by the prompt."""

    def __init__(self, installed: Installer) -> None:
        self.arrived: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.open: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.answers: dict[str, Any] = {}
        installed.loop.act = self.act

    async def act(self, prompt: str, providers: dict[str, Any], **_: Any) -> str:
        self.arrived[prompt].set()
        await self.open[prompt].wait()
        if isinstance(self.answers.get(prompt), Exception):
            raise self.answers[prompt]
        response = await next(iter(providers.values())).complete(None)
        return response.content[0].text

    async def start(self, session: AmplifierSession, prompt: str) -> asyncio.Task[str]:
        """Start a turn and wait until it stands at its gate."""
        turn = asyncio.create_task(session.execute(prompt))
        await self.arrived[prompt].wait()
        return turn


@requirement("LAW-19")
async def test_a_swap_waits_for_the_running_turn_and_comes_before_a_waiting_one(
    installed: Installer,
) -> None:
    installed.provider.answers = ["old"]
    gates = Gates(installed)
    session, heard = await ready_session(installed)
    installed.object("provider-new", "providers", ScriptedProvider("new"), "test")

    async with asyncio.timeout(120):
        one = await gates.start(session, "one")
        two = asyncio.create_task(session.execute("two"))
        await session.swap("providers", {"module": "provider-new"})
        assert heard.events == []
        for prompt in ("one", "two"):
            gates.open[prompt].set()
        assert (await one, await two) == ("old", "new")

    assert heard.events == ["module:swapped"]


async def test_who_hears_of_a_swap_may_run_a_turn(installed: Installer) -> None:
    installed.provider.answers = ["old"]
    gates = Gates(installed)
    session, _ = await ready_session(installed)
    installed.object("provider-new", "providers", ScriptedProvider("new", "new"), "test")
    answers: list[str] = []

    async def run_another(event: str, data: Any) -> None:
        answers.append(await session.execute("another"))

    session.coordinator.hooks.register("module:swapped", run_another)
    gates.open["another"].set()
    async with asyncio.timeout(120):
        turn = await gates.start(session, "one")
        await session.swap("providers", {"module": "provider-new"})
        gates.open["one"].set()
        await turn

    assert answers == ["new"]


class SlowMemory(Memory):
    """A memory that takes its time to say what it knows."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = asyncio.Event(), asyncio.Event()

    async def get_messages(self) -> list[dict[str, Any]]:
        self.asked.set()
        await self.answer.wait()
        return await super().get_messages()


@requirement("LAW-19")
async def test_a_turn_that_came_during_an_exchange_finds_all_of_it_done(
    installed: Installer,
) -> None:
    installed.memory = memory = SlowMemory()
    installed.provider.answers = ["old"]
    gates = Gates(installed)
    session, _ = await ready_session(installed)
    new = Memory()
    installed.object("context-new", "context", new)
    installed.object("provider-new", "providers", ScriptedProvider("new"), "test")

    async with asyncio.timeout(120):
        first = asyncio.create_task(session.swap("context", {"module": "context-new"}))
        await memory.asked.wait()
        turn = asyncio.create_task(session.execute("between"))
        await asyncio.sleep(0)
        second = asyncio.create_task(session.swap("providers", {"module": "provider-new"}))
        await asyncio.sleep(0)
        memory.answer.set()
        await asyncio.gather(first, second)
        gates.open["between"].set()
        answer = await turn

    assert answer == "new"
    assert installed.loop.handed[0]["context"] is new


@requirement("LAW-19")
async def test_a_swap_that_is_cut_short_at_the_boundary_is_made_up_for_at_the_next(
    installed: Installer,
) -> None:
    installed.memory = memory = SlowMemory()
    gates = Gates(installed)
    session, heard = await ready_session(installed)
    new = Memory()
    installed.object("context-new", "context", new)

    async with asyncio.timeout(120):
        turn = await gates.start(session, "first")
        await session.swap("context", {"module": "context-new"})
        gates.open["first"].set()
        await memory.asked.wait()
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        assert session.coordinator.get("context") is memory
        memory.answer.set()
        second = await gates.start(session, "second")
        gates.open["second"].set()
        await second

    assert session.coordinator.get("context") is new
    assert heard.events == ["module:swapped"]


async def test_a_module_that_somebody_wrapped_by_hand_survives_the_swap_of_another(
    installed: Installer,
) -> None:
    """Only what a swap replaced is let go: the wrapper still needs what it wraps."""
    cleaned: list[str] = []
    tool = MockTool("tool")
    mount = mounting("tools", tool, returns=lambda: cleaned.append("tool"))
    installed.add("tool-inner", mount)
    session, _ = await ready_session(installed, tools=[{"module": "tool-inner"}])
    await session.coordinator.mount("tools", MockTool("tool"), name="tool")
    installed.object("provider-new", "providers", ScriptedProvider("new"), "test")

    await session.swap("providers", {"module": "provider-new"})
    await session.execute("hi")

    assert cleaned == []
    assert "tool-inner" in [each.module_id for each in session.status.modules]


@pytest.mark.parametrize("error", [RuntimeError("boom"), None])
async def test_a_turn_of_before_the_swap_says_nothing_about_the_new_module(
    installed: Installer, error: Exception | None
) -> None:
    installed.provider.answers = ["old"]
    gates = Gates(installed)
    gates.answers["before"] = error
    session, heard = await ready_session(installed)
    installed.object("provider-bad", "providers", ScriptedProvider(RuntimeError("bad")), "test")

    async with asyncio.timeout(120):
        turn = await gates.start(session, "before")
        await session.swap("providers", {"module": "provider-bad"})
        gates.open["before"].set()
        await asyncio.gather(turn, return_exceptions=True)
        assert heard.events == ["module:swapped"]
        first = await gates.start(session, "first")
        gates.open["first"].set()
        with pytest.raises(RuntimeError, match="bad"):
            await first

    assert heard.events == ["module:swapped", "module:rolled_back"]
    assert session.coordinator.get("providers", "test") is installed.provider
