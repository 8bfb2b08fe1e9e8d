"""A client that is made in a thread: once, off the loop, and closed in the end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_kit.calls.lazy_client import LazyClient


class Client:
    def __init__(self) -> None:
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


class OldClient:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class NewClient(OldClient):
    async def aclose(self) -> None:
        self.closed += 10


class Slow:
    """Makes a client when it is let."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.made: list[Client] = []
        self.threads: list[str] = []

    def __call__(self) -> Client:
        self.threads.append(threading.current_thread().name)
        assert self.gate.wait(5)
        self.made.append(Client())
        return self.made[-1]


async def test_a_client_is_made_once_and_in_another_thread() -> None:
    make = Slow()
    make.gate.set()
    client = LazyClient(make)

    async with asyncio.timeout(120):
        first, second, third = await asyncio.gather(client.get(), client.get(), client.get())

    assert first is second is third is await client.get()
    assert len(make.made) == 1
    assert make.threads[0].startswith("sdk-import")


async def test_the_loop_runs_while_a_client_is_made() -> None:
    make = Slow()
    client = LazyClient(make)
    client.start()
    client.start()

    waiting = asyncio.create_task(client.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    make.gate.set()

    async with asyncio.timeout(120):
        await waiting
    assert len(make.threads) == 1


async def test_a_client_that_could_not_be_made_is_tried_again() -> None:
    outcomes: list[Any] = [ImportError("no such SDK"), Client()]

    def make() -> Client:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    client = LazyClient(make)
    async with asyncio.timeout(120):
        with pytest.raises(ImportError, match="no such SDK"):
            await client.get()

        assert isinstance(await client.get(), Client)


async def test_a_caller_who_leaves_takes_nothing_from_the_others() -> None:
    client: LazyClient[str] = LazyClient(lambda: "never")
    # What `start` leaves behind as long as its thread has not begun.
    client._making = unbegun = Future[str]()
    leaving, staying = asyncio.create_task(client.get()), asyncio.create_task(client.get())
    await asyncio.sleep(0)

    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    unbegun.set_result("client")

    async with asyncio.timeout(120):
        assert await staying == "client"
        assert await client.get() == "client"


async def test_a_failure_does_not_forget_the_client_of_the_next_attempt() -> None:
    client: LazyClient[str] = LazyClient(lambda: "never")
    client._making = failing = Future[str]()
    waiting = asyncio.create_task(client.get())
    await asyncio.sleep(0)
    client._making = succeeding = Future[str]()

    failing.set_exception(ImportError("no"))
    async with asyncio.timeout(120):
        with pytest.raises(ImportError):
            await waiting

    succeeding.set_result("client")
    assert await client.get() == "client"


@pytest.mark.parametrize(
    ("kind", "expected"), [(Client, 1), (OldClient, 1), (NewClient, 10)], ids=lambda k: str(k)
)
async def test_closing_closes_the_client_by_its_own_means(kind: type[Any], expected: int) -> None:
    client = LazyClient[Any](kind)
    made = await client.get()

    await client.close()
    await client.close()

    assert made.closed == expected


async def test_closing_waits_for_a_client_in_the_making_and_closes_it() -> None:
    make = Slow()
    client = LazyClient(make)
    client.start()
    assert await wait_for(lambda: bool(make.threads), timeout=120)
    async with asyncio.timeout(120):
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0)
        make.gate.set()
        await closing

    assert [each.closed for each in make.made] == [1]


async def test_closing_what_was_never_made_is_no_error() -> None:
    await LazyClient(Client).close()

    def fail() -> Client:
        raise ImportError("no such SDK")

    broken = LazyClient(fail)
    broken.start()
    await broken.close()

    nothing_to_close = LazyClient(object)
    await nothing_to_close.get()
    await nothing_to_close.close()
