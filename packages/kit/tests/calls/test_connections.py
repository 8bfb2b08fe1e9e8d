"""Leaving a connection in a state in which the next call can use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from amplifier_kit.calls.connections import read_rest


async def test_what_follows_an_answer_is_read_to_its_end() -> None:
    read: list[int] = []

    async def events() -> AsyncIterator[object]:
        for number in range(3):
            read.append(number)
            yield number

    await read_rest(events())

    assert read == [0, 1, 2]


async def test_an_answer_is_safe_from_what_follows_it() -> None:
    async def breaking() -> AsyncIterator[object]:
        yield 1
        raise ConnectionResetError("gone")

    async def silent() -> AsyncIterator[object]:
        yield 1
        await asyncio.Event().wait()

    async with asyncio.timeout(120):
        await read_rest(breaking())
        await read_rest(silent())


async def test_a_caller_who_leaves_meanwhile_is_let_go() -> None:
    begun = asyncio.Event()

    async def silent() -> AsyncIterator[object]:
        begun.set()
        await asyncio.Event().wait()
        yield 1

    reading = asyncio.create_task(read_rest(silent()))
    async with asyncio.timeout(120):
        await begun.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
