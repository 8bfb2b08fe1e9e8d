"""The limit of a handler: what hangs fails, what waits for somebody does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_module_hooks_approval.handler_limits import within


async def test_an_answer_in_time_is_passed_on() -> None:
    async def answer(event: str, data: Any) -> str:
        return f"{event} {data}"

    assert await within(5, answer, lambda data: False)("tool:pre", 1) == "tool:pre 1"


async def test_an_error_of_the_handler_is_its_own() -> None:
    async def fail(event: str, data: Any) -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        await within(5, fail, lambda data: False)("tool:pre", 1)


async def test_a_handler_that_hangs_is_cancelled_and_fails() -> None:
    cancelled = asyncio.Event()

    async def hang(event: str, data: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError, match="no decision after 0.01 s"):
        await within(0.01, hang, lambda data: False)("tool:pre", 1)
    async with asyncio.timeout(120):
        await cancelled.wait()


async def test_a_handler_that_waits_for_somebody_is_not_limited() -> None:
    answer = asyncio.Event()
    looks: list[bool] = []

    def is_waiting(data: Any) -> bool:
        looks.append(True)
        if len(looks) == 3:
            answer.set()
        return True

    async def ask(event: str, data: Any) -> str:
        await answer.wait()
        return "yes"

    async with asyncio.timeout(120):
        assert await within(0.01, ask, is_waiting)("tool:pre", 1) == "yes"
    assert len(looks) == 3
