"""Tests that a turn knows nothing of the turns before it and beside it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import ChatRequest, ChatResponse, HookResult
from amplifier_core.testing import MockTool
from amplifier_kit.turn_events import STUCK
from contract.installer import response
from contract.turns import Turn, calls, loop


class Session:
    """Runs turns in the same surroundings, as a session does."""

    def __init__(self, loop: Any, *answers: Any) -> None:
        self.turn = Turn(loop, *answers, tools=[MockTool("t")])
        self._around: dict[str, Any] = {
            "context": self.turn.context,
            "providers": {"test": self.turn.provider},
            "tools": self.turn.tools,
            "hooks": self.turn.hooks,
            "coordinator": self.turn.coordinator,
        }

    async def execute(self) -> str:
        async with asyncio.timeout(120):
            return await self.turn.loop.execute("hi", **self._around)

    @property
    def endings(self) -> list[tuple[str, int]]:
        told = self.turn.told("orchestrator:complete")
        return [(data["stop_reason"], data["turn_count"]) for data in told]


async def takes_its_time(_: ChatRequest) -> ChatResponse:
    await asyncio.sleep(0.3)
    return response(calls("t"))


@pytest.mark.parametrize(
    ("config", "first", "reason"),
    [
        ({"max_iterations": 1}, calls("t"), "limit"),
        ({"turn_timeout_seconds": 0.25}, takes_its_time, "deadline"),
    ],
)
async def test_a_turn_has_all_its_steps_and_time_whatever_the_one_before_used(
    config: dict[str, Any], first: Any, reason: str
) -> None:
    session = Session(await loop(**config), first, "So far.", "Done.")

    assert await session.execute() == "So far."
    assert await session.execute() == "Done."

    assert session.endings == [(reason, 2), ("completed", 1)]
    assert session.turn.provider.requests[-1].tools is not None


async def test_equal_calls_are_counted_within_one_turn() -> None:
    equal = calls("t")
    session = Session(await loop(), equal, equal, "One.", equal, equal, "Two.")
    session.turn.hooks.register(STUCK, session.turn.heard)

    assert await session.execute() == "One."
    assert await session.execute() == "Two."

    assert session.turn.told(STUCK) == []


async def test_what_waited_for_a_request_that_was_denied_is_gone_with_its_turn() -> None:
    session = Session(await loop(), calls("t"), "Done.")

    def inject(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="inject_context", ephemeral=True, context_injection="Only now.")

    def deny_the_second(event: str, data: dict[str, Any]) -> HookResult:
        is_second = data["iteration"] == 2
        return HookResult(action="deny" if is_second else "continue", reason="enough")

    session.turn.hooks.register("tool:post", inject)
    session.turn.hooks.register("provider:request", deny_the_second)

    assert await session.execute() == "Operation denied: enough"
    assert await session.execute() == "Done."

    sent = [message.content for message in session.turn.provider.requests[-1].messages]
    assert "Only now." not in sent


async def test_turns_at_the_same_time_are_kept_apart() -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def wait(_: ChatRequest) -> ChatResponse:
        asked.set()
        await release.wait()
        return response("First.")

    session = Session(await loop(), "Before.", calls("t"), wait, "Second.")
    await session.execute()
    async with asyncio.timeout(120):
        first = asyncio.create_task(session.execute())
        await asked.wait()
        second = await session.execute()
        release.set()

        assert (await first, second) == ("First.", "Second.")

    assert session.endings == [("completed", 1), ("completed", 1), ("completed", 2)]


async def test_a_turn_after_one_that_failed_begins_anew() -> None:
    session = Session(await loop(), calls("t"), ConnectionError("gone"), "Done.")

    with pytest.raises(ConnectionError):
        await session.execute()
    assert await session.execute() == "Done."

    assert session.endings == [("error", 2), ("completed", 1)]
