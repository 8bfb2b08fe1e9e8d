"""Cancellation by a scope that cancels again at every await, as web frameworks do."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from amplifier import Agent
from amplifier_foundation.file_sessions import FileSessions
from end_to_end.shop import calls, script, slow


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_cancelled_turn_is_recorded_to_its_end(tmp_path: Path, is_streamed: bool) -> None:
    agent = Agent(script(calls("slow"), "Never said."), tools=[slow])

    with anyio.move_on_after(0.2) as scope:
        async with agent.session("c1", store=tmp_path) as session:
            if is_streamed:
                async for _ in session.stream("Wait."):
                    pass
            else:
                await session.run("Wait.")

    assert scope.cancelled_caught
    records = list(FileSessions(tmp_path).read("c1").records())
    (ended,) = [each for each in records if each.kind == "turn.ended"]
    (closed,) = [each for each in records if each.data.get("name") == "session:end"]
    assert ended.data["stop_reason"] == "cancelled"
    assert ended.seq < closed.seq


async def test_a_session_whose_turn_was_cancelled_is_continued(tmp_path: Path) -> None:
    agent = Agent(script(calls("slow"), "Done."), tools=[slow])

    with anyio.move_on_after(0.2):
        async with agent.session("c1", store=tmp_path) as session:
            await session.run("Wait.")
    async with Agent(script("Here.")).session("c1", store=tmp_path) as session:
        done = await session.run("Still there?")

    assert done.output == "Here."
