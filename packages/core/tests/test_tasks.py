"""Tests of bounded waiting, and of telling a real cancellation from a made-up one."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from amplifier_core._tasks import DONE, is_being_cancelled, limited


async def test_work_that_is_done_in_time_is_returned() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert await limited(5, work()) == "done"
    assert await limited(None, work()) == "done"


async def test_the_failure_of_work_is_raised_as_it_is() -> None:
    error = RuntimeError("boom")

    async def work() -> None:
        raise error

    with pytest.raises(RuntimeError) as caught:
        await limited(5, work())
    assert caught.value is error


async def test_work_runs_in_the_task_and_the_context_of_who_waits_for_it() -> None:
    variable: ContextVar[str] = ContextVar("variable")

    async def work() -> asyncio.Task[Any] | None:
        variable.set("by the work")
        return asyncio.current_task()

    assert await limited(5, work()) is asyncio.current_task()
    assert variable.get() == "by the work"


@pytest.mark.parametrize("seconds", [0.01, 0, -1])
async def test_work_that_hangs_is_cancelled(seconds: float) -> None:
    cancelled: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    async with asyncio.timeout(120):
        with pytest.raises(TimeoutError, match=f"no result after {seconds:g} s"):
            await limited(seconds, work())

    assert cancelled == [True]
    assert not is_being_cancelled()


async def test_work_that_waits_again_while_it_is_cancelled_is_cancelled_again() -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    async with asyncio.timeout(120):
        with pytest.raises(TimeoutError):
            await limited(0.01, work())

    assert not is_being_cancelled()


async def test_work_that_ends_by_itself_after_its_cancellation_has_its_answer_taken() -> None:
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"
        raise AssertionError("the event is never set")

    async with asyncio.timeout(120):
        assert await limited(0.01, work()) == "late"

    assert not is_being_cancelled()


async def test_cancelling_who_waits_is_a_cancellation_and_no_timeout() -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(120):
        waiting = asyncio.ensure_future(limited(5, work()))
        await started.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_cancellation_that_meets_the_limit_is_a_cancellation() -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            waiting.cancel()

    async with asyncio.timeout(120):
        waiting = asyncio.ensure_future(limited(0.01, work()))
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_the_limit_counts_in_a_task_that_is_being_cancelled_too() -> None:
    """Handlers that hear of a cancelled turn run in the task that was cancelled."""
    outcome: list[str] = []

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with pytest.raises(TimeoutError):
                await limited(0.01, asyncio.Event().wait())
            outcome.append("timed out")
            raise

    async with asyncio.timeout(120):
        task = asyncio.create_task(clean_up())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert outcome == ["timed out"]
    assert task.cancelled()


async def test_only_a_task_that_was_asked_to_stop_is_being_cancelled() -> None:
    found: list[bool] = []

    async def look() -> None:
        found.append(is_being_cancelled())
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            found.append(is_being_cancelled())

    task = asyncio.create_task(look())
    await asyncio.sleep(0)
    task.cancel()
    await task

    assert found == [False, True]


async def test_done_can_be_awaited_again_and_again() -> None:
    await DONE
    await DONE
