"""Processes that are forked from warm code: no test waits for the same imports again and again.

The engine must not have been started in the process that forks.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from runtime_stage import plan_with

from amplifier_core.session import AmplifierSession

T = TypeVar("T")


def warm_up(loop: str) -> None:
    """Import what every session with this loop needs."""

    async def open_and_close() -> None:
        session = AmplifierSession(plan_with(loop))
        await session.initialize()
        await session.cleanup()

    asyncio.run(open_and_close())


def fork(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run something in a process of its own; returns its exit code."""
    return _end_of(_begin(lambda: asyncio.run(work())))


def share(places: Sequence[str], tasks: Sequence[T], do: Callable[[str, T], None]) -> None:
    """Do every task at one of the places, at all places at the same time."""
    processes = [
        _begin(partial(_do_all, do, place, tasks[number :: len(places)]))
        for number, place in enumerate(places)
    ]
    codes = [_end_of(process) for process in processes]
    assert not any(codes), codes


def say(**facts: Any) -> None:
    """Print a JSON line in one piece: others print to the same place at the same time."""
    os.write(1, f"{json.dumps(facts)}\n".encode())


def _do_all(do: Callable[[str, T], None], place: str, tasks: Sequence[T]) -> None:
    for task in tasks:
        do(place, task)


def _begin(work: Callable[[], None]) -> int:
    assert sys.platform != "win32", "Windows has no fork"
    process = os.fork()
    if process:
        return process
    try:
        work()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the last that this process does
        traceback.print_exc()
    finally:
        os._exit(1)


def _end_of(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
