"""Tests of tasks that begin at once."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable

import pytest

from amplifier_module_loops.tool_runs import Starter

place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="outside")


async def test_work_that_never_waits_is_done_without_a_round_of_the_event_loop() -> None:
    seen: list[object] = []

    async def work() -> None:
        seen.append(asyncio.current_task())

    me = asyncio.current_task()

    assert Starter().start(work()) is None
    assert isinstance(seen[0], asyncio.Task)
    assert seen[0] is not me
    assert asyncio.current_task() is me
    await asyncio.sleep(0)


async def wait_for_event(gate: asyncio.Event) -> None:
    await gate.wait()


async def give_way(_: asyncio.Event) -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("wait", [wait_for_event, give_way])
async def test_work_that_waits_goes_on_in_the_task_it_began_in(
    wait: Callable[[asyncio.Event], Awaitable[None]],
) -> None:
    gate, tasks = asyncio.Event(), list[object]()

    async def work() -> None:
        tasks.append(asyncio.current_task())
        async with asyncio.timeout(5):
            await wait(gate)
        tasks.append(asyncio.current_task())

    task = Starter().start(work())
    assert task is not None
    gate.set()
    await task

    assert tasks == [task, task]


@pytest.mark.parametrize("waits", [True, False])
async def test_what_it_raises_comes_out_of_the_task(waits: bool) -> None:
    async def work() -> None:
        await asyncio.sleep(0 if waits else -1)
        raise LookupError("lost")

    async def fail() -> None:
        raise LookupError("lost")

    task = Starter().start(work() if waits else fail())

    assert task is not None
    with pytest.raises(LookupError, match="lost"):
        await task


@pytest.mark.parametrize("rounds", [0, 1, 2])
async def test_a_cancellation_reaches_what_it_waits_for_at_any_time(rounds: int) -> None:
    let_go: list[str] = []
    inner: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            await inner
        finally:
            let_go.append("work")

    task = Starter().start(work())
    assert task is not None
    for _ in range(rounds):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert let_go == ["work"]
    assert inner.cancelled()


async def test_a_deadline_inside_the_work_ends_the_work_and_not_its_caller() -> None:
    async def work() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    task = Starter().start(work())

    assert task is not None
    with pytest.raises(TimeoutError):
        await task


async def test_what_it_sets_in_its_context_stays_there() -> None:
    seen: list[str] = []

    async def work() -> None:
        place.set("inside")
        await asyncio.sleep(0)
        seen.append(place.get())

    task = Starter().start(work())
    assert task is not None
    await task

    assert seen == ["inside"]
    assert place.get() == "outside"


async def test_a_task_that_is_dropped_closes_its_work() -> None:
    closed: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    task = Starter().start(work())
    assert task is not None
    coroutine = task.get_coro()
    assert coroutine is not None
    coroutine.close()

    assert closed == ["closed"]
    task.cancel()
    await asyncio.wait([task])


async def test_a_task_is_used_again_until_the_event_loop_comes_round_to_it() -> None:
    starter, tasks = Starter(), list[object]()

    async def work() -> None:
        tasks.append(asyncio.current_task())

    async def wait() -> None:
        tasks.append(asyncio.current_task())
        await asyncio.sleep(0)

    starter.start(work())
    starter.start(work())
    waiting = starter.start(wait())
    starter.start(work())
    await asyncio.sleep(0)
    starter.start(work())

    first, second, third, fourth, fifth = tasks
    assert first is second is third is waiting
    assert fourth is not third
    assert fifth is not fourth
    assert waiting is not None
    await waiting


async def test_a_task_that_its_work_cancelled_is_not_used_again() -> None:
    starter, seen = Starter(), list[int]()

    async def give_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def look() -> None:
        task = asyncio.current_task()
        assert task is not None
        seen.append(task.cancelling())

    assert starter.start(give_up()) is None
    assert starter.start(look()) is None
    await asyncio.sleep(0)

    assert seen == [0]


def test_a_task_of_another_event_loop_is_not_used() -> None:
    starter, done = Starter(), list[str]()

    async def work() -> None:
        done.append("done")

    async def run() -> None:
        assert starter.start(work()) is None

    asyncio.run(run())
    asyncio.run(run())

    assert done == ["done", "done"]


async def test_work_that_starts_more_work_at_once_keeps_its_task_to_itself() -> None:
    starter, tasks = Starter(), list[object]()

    async def inner() -> None:
        tasks.append(asyncio.current_task())

    async def outer() -> None:
        tasks.append(asyncio.current_task())
        assert starter.start(inner()) is None
        tasks.append(asyncio.current_task())

    assert starter.start(inner()) is None
    assert starter.start(outer()) is None

    spare, before, inside, after = tasks
    assert spare is before is after
    assert inside is not before


async def test_an_error_before_the_first_wait_outlasts_a_cancellation() -> None:
    async def fail() -> None:
        raise LookupError("lost")

    task = Starter().start(fail())
    assert task is not None
    task.cancel()

    with pytest.raises(LookupError, match="lost"):
        await task


async def test_each_work_has_the_context_of_whoever_starts_it_also_in_a_task_used_again() -> None:
    starter, seen = Starter(), list[str]()

    async def work(name: str) -> None:
        seen.append(place.get())
        place.set(name)

    starter.start(work("first"))
    starter.start(work("second"))
    place.set("later")
    starter.start(work("third"))
    await asyncio.sleep(0)

    assert seen == ["outside", "outside", "later"]
