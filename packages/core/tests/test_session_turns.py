"""Tests of several turns of one session: they run one at a time, and never inside each other."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from collections import defaultdict
from typing import Any

import pytest

from amplifier_core import (
    AmplifierSession,
    ModuleCoordinator,
    NotInitializedError,
    SessionError,
)
from contract.installer import Installer, Loop


class Turns:
    """A loop that notes when its turns begin and end, and lets each wait for its gate."""

    def __init__(self, installed: Installer) -> None:
        self.seen: list[str] = []
        self.gate: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.began: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        installed.loop.act = self.act

    async def act(self, prompt: str, **_: Any) -> str:
        self.seen.append(f"{prompt} begins")
        self.began[prompt].set()
        await self.gate[prompt].wait()
        self.seen.append(f"{prompt} ends")
        return prompt


async def test_turns_of_one_session_run_one_after_the_other_as_they_came(
    installed: Installer,
) -> None:
    turns = Turns(installed)
    async with AmplifierSession(installed.basics()) as session, asyncio.timeout(120):
        running = [asyncio.create_task(session.execute(name)) for name in ("a", "b", "c")]
        for name in ("c", "b", "a"):
            turns.gate[name].set()
        answers = await asyncio.gather(*running)

    assert answers == ["a", "b", "c"]
    assert turns.seen == [f"{name} {what}" for name in answers for what in ("begins", "ends")]


async def test_a_waiting_turn_that_is_cancelled_leaves_the_others_alone(
    installed: Installer,
) -> None:
    turns = Turns(installed)
    async with AmplifierSession(installed.basics()) as session, asyncio.timeout(120):
        first = asyncio.create_task(session.execute("first"))
        await turns.began["first"].wait()
        cancelled = asyncio.create_task(session.execute("cancelled"))
        last = asyncio.create_task(session.execute("last"))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert cancelled.cancelled()
        assert not first.done()
        for name in ("first", "last"):
            turns.gate[name].set()
        assert (await first, await last) == ("first", "last")

    assert turns.seen == ["first begins", "first ends", "last begins", "last ends"]


async def test_a_turn_that_waited_until_the_session_ended_is_refused(installed: Installer) -> None:
    turns = Turns(installed)
    session = AmplifierSession(installed.basics())
    await session.initialize()
    async with asyncio.timeout(120):
        first = asyncio.create_task(session.execute("first"))
        await turns.began["first"].wait()
        waiting = asyncio.create_task(session.execute("waiting"))
        await asyncio.sleep(0)
        await session.cleanup()
        turns.gate["first"].set()
        await first
        with pytest.raises(NotInitializedError):
            await waiting


@pytest.mark.parametrize("from_a_child", [False, True])
async def test_a_turn_from_inside_a_turn_of_the_same_session_is_refused(
    installed: Installer, from_a_child: bool
) -> None:
    session = AmplifierSession(installed.basics())

    async def act(prompt: str, **_: Any) -> str:
        if prompt == "outer" and from_a_child:
            async with session.fork() as child:
                return await child.execute("inner")
        return await session.execute("the same session")

    installed.loop.act = act
    async with session, asyncio.timeout(120):
        with pytest.raises(SessionError, match="from inside a turn of the same session") as refused:
            await session.execute("outer")
        assert refused.value.session_id == session.session_id
        assert "Fork a session instead" in str(refused.value)
        # It was refused before it waited, so the session is not stuck.
        installed.loop.act = _answer
        assert await session.execute("next") == "answer"


async def test_what_a_turn_started_may_run_a_turn_when_that_one_has_ended(
    installed: Installer,
) -> None:
    later: list[asyncio.Task[str]] = []
    ended = asyncio.Event()
    session = AmplifierSession(installed.basics())

    async def follow_up() -> str:
        await ended.wait()
        return await session.execute("follow up")

    async def act(prompt: str, **_: Any) -> str:
        if prompt == "first":
            later.append(asyncio.create_task(follow_up()))
        return prompt

    installed.loop.act = act
    async with session, asyncio.timeout(120):
        await session.execute("first")
        ended.set()
        assert await later[0] == "follow up"


async def test_a_turn_leaves_nothing_in_the_context_of_its_caller(installed: Installer) -> None:
    async with AmplifierSession(installed.basics()) as session:
        await session.execute("first")
        before = dict(contextvars.copy_context())
        await session.execute("second")

        assert dict(contextvars.copy_context()) == before


async def test_a_loop_is_not_kept_in_memory_after_its_session(installed: Installer) -> None:
    loops: list[weakref.ref[Loop]] = []

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        loop = Loop()
        loops.append(weakref.ref(loop))
        await coordinator.mount("orchestrator", loop)

    plan = installed.basics()
    installed.add("loop-test", mount)
    async with AmplifierSession(plan) as session:
        await session.execute("hi")

    del session
    gc.collect()
    assert [loop() for loop in loops] == [None]


async def _answer(**_: Any) -> str:
    return "answer"
