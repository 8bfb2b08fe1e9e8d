"""Tests of bounded waiting, and of telling a real cancellation from a made-up one."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from amplifier_core._tasks import DONE, abandon_after, is_awaitable, is_being_cancelled
from amplifier_core.testing import wait_for


async def test_work_that_is_done_in_time_is_returned() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert await abandon_after(5, work()) == "done"


async def test_the_failure_of_work_is_raised_as_it_is() -> None:
    error = RuntimeError("boom")

    async def work() -> None:
        raise error

    with pytest.raises(RuntimeError) as caught:
        await abandon_after(5, work())
    assert caught.value is error


async def test_work_that_hangs_is_cancelled_and_left() -> None:
    cancelled: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    async with asyncio.timeout(5):
        with pytest.raises(TimeoutError, match=r"0\.01 s"):
            await abandon_after(0.01, work())
        assert await wait_for(lambda: bool(cancelled))


async def test_work_that_ignores_its_cancellation_is_not_waited_for() -> None:
    release = asyncio.Event()
    finished: list[str] = []

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                finished.append("ignored")
        finished.append("ended by itself")
        raise RuntimeError("nobody looks at this")

    complaints = _complaints()
    async with asyncio.timeout(5):
        with pytest.raises(TimeoutError):
            await abandon_after(0.01, stubborn())
        release.set()
        assert await wait_for(lambda: finished == ["ignored", "ended by itself"])
    await asyncio.sleep(0)
    gc.collect()

    assert complaints == []


async def test_a_negative_time_counts_as_none_at_all() -> None:
    with pytest.raises(TimeoutError):
        await abandon_after(-1, asyncio.Event().wait())


async def test_cancelling_who_waits_cancels_the_work() -> None:
    started = asyncio.Event()
    ended: list[str] = []

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async with asyncio.timeout(5):
        waiting = asyncio.create_task(abandon_after(5, work()))
        await started.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await wait_for(lambda: ended == ["work"])


async def test_work_that_fails_while_it_is_cancelled_leaves_no_complaint() -> None:
    """An exception that nobody can be told of any more must not haunt the event loop."""
    started = asyncio.Event()
    failed: list[bool] = []

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            failed.append(True)
            raise RuntimeError("while cancelled")

    complaints = _complaints()
    async with asyncio.timeout(5):
        waiting = asyncio.create_task(abandon_after(5, work()))
        await started.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await wait_for(lambda: bool(failed))
    del waiting
    await asyncio.sleep(0)
    gc.collect()

    assert complaints == []


def _complaints() -> list[str]:
    """Collect what the event loop would print about forgotten exceptions."""
    complaints: list[str] = []

    def note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        complaints.append(context["message"])

    asyncio.get_running_loop().set_exception_handler(note)
    return complaints


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
    assert is_awaitable(DONE)
    assert not is_awaitable("text")
    await DONE
    await DONE
