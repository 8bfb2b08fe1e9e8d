"""Cancellation by a scope that cancels again at every await, as web frameworks do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from amplifier import Agent
from amplifier.finish import in_own_task
from amplifier_foundation.file_sessions import FileSessions
from end_to_end.shop import calls, disconnect, script


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_cancelled_turn_is_recorded_to_its_end(tmp_path: Path, is_streamed: bool) -> None:
    agent = Agent(
        script(calls("disconnect"), "Never said."), tools=[disconnect], deps=anyio.CancelScope
    )

    with anyio.CancelScope() as scope:
        async with agent.session("c1", deps=scope, store=tmp_path) as session:
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
    agent = Agent(script(calls("disconnect"), "Done."), tools=[disconnect], deps=anyio.CancelScope)

    with anyio.CancelScope() as scope:
        async with agent.session("c1", deps=scope, store=tmp_path) as session:
            await session.run("Wait.")

    assert await _says_here(tmp_path)


# Somewhere while the session is opened, or after that: it may be cancelled at any point.
@pytest.mark.parametrize("milliseconds", [0, 1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("cancels_again", [True, False])
async def test_a_session_whose_opening_was_cancelled_is_continued(
    tmp_path: Path, milliseconds: int, cancels_again: bool
) -> None:
    if cancels_again:
        with anyio.move_on_after(milliseconds / 1000) as scope:
            await _open_and_wait(tmp_path)
        assert scope.cancelled_caught
    else:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(milliseconds / 1000):
                await _open_and_wait(tmp_path)

    assert await _says_here(tmp_path)


async def test_a_context_that_was_being_entered_is_left_before_the_caller_is_cancelled() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def context(scope: anyio.CancelScope) -> AsyncGenerator[None]:
        try:
            scope.cancel()
            await asyncio.sleep(60)
            yield
        finally:
            await asyncio.sleep(0.01)
            seen.append("left")

    with anyio.CancelScope() as scope:
        async with in_own_task(context(scope)):
            seen.append("entered")

    assert scope.cancelled_caught
    assert seen == ["left"]


async def test_a_context_is_entered_and_left_in_one_task_that_is_not_cancelled() -> None:
    tasks: list[asyncio.Task[None] | None] = []

    @asynccontextmanager
    async def context() -> AsyncGenerator[str]:
        tasks.append(asyncio.current_task())
        yield "entered"
        await asyncio.sleep(0.01)
        tasks.append(asyncio.current_task())

    with anyio.CancelScope() as scope:
        async with in_own_task(context()) as value:
            assert value == "entered"
            scope.cancel()

    entered_in, left_in = tasks
    assert entered_in is left_in


async def test_what_entering_raises_is_raised() -> None:
    @asynccontextmanager
    async def context(is_open: bool) -> AsyncGenerator[None]:
        if not is_open:
            raise RuntimeError("closed")
        yield

    with pytest.raises(RuntimeError, match="closed"):
        async with in_own_task(context(is_open=False)):
            pytest.fail("it was not entered")


async def _open_and_wait(store: Path) -> None:
    async with Agent(script("Never said.")).session("c1", store=store):
        await asyncio.sleep(60)


async def _says_here(store: Path) -> bool:
    async with Agent(script("Here.")).session("c1", store=store) as session:
        done = await session.run("Still there?")
    return done.output == "Here."
