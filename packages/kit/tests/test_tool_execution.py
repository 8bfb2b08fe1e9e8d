"""Tests of executing a tool: async in the event loop, plain functions in a thread."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core.correlation import current_tool_call_id, tool_call
from amplifier_kit.tools import execute_tool


class ToolOf:
    """A tool that executes a function."""

    def __init__(self, execute: Callable[[dict[str, Any]], Any]) -> None:
        self.execute = execute


async def in_the_loop(given: dict[str, Any]) -> tuple[Any, int]:
    return given["n"], threading.get_ident()


def handing_on(given: dict[str, Any]) -> Awaitable[Any]:
    return in_the_loop(given)


@functools.wraps(in_the_loop)
def decorated(given: dict[str, Any]) -> Awaitable[Any]:
    # A task can only be made in the event loop, not in a thread.
    return asyncio.ensure_future(in_the_loop(given))


@pytest.mark.parametrize(
    "execute", [in_the_loop, handing_on, decorated, functools.partial(in_the_loop)]
)
async def test_what_is_async_in_the_end_runs_in_the_event_loop(execute: Any) -> None:
    assert await execute_tool(ToolOf(execute), {"n": 7}) == (7, threading.get_ident())


async def test_a_plain_function_does_not_stop_the_event_loop() -> None:
    asked, answered = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def ask(given: dict[str, Any]) -> bool:
        loop.call_soon_threadsafe(asked.set)
        return answered.wait(timeout=120)

    async with asyncio.timeout(120):
        running = asyncio.create_task(execute_tool(ToolOf(ask), {}))
        # The event loop answers while the function waits for it.
        await asked.wait()
        answered.set()
        assert await running


async def test_a_plain_function_sees_the_context_of_its_call() -> None:
    with tool_call("t", "call-1"):
        assert await execute_tool(ToolOf(lambda _: current_tool_call_id()), {}) == "call-1"


async def test_what_a_plain_function_raises_is_raised() -> None:
    def fail(given: dict[str, Any]) -> None:
        raise LookupError(given["n"])

    with pytest.raises(LookupError, match="7"):
        await execute_tool(ToolOf(fail), {"n": 7})
