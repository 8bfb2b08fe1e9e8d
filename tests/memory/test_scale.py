"""A request of a long session costs what one of a short session costs, apart from the list copy."""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockProvider

Mount = Callable[..., Awaitable[tuple[Any, Callable[[], Awaitable[None]]]]]
SHORT, LONG = 500, 5_000
ROUNDS, BATCH = 200, 20
# What the clock and the scheduler may add to one request, in seconds.
NOISE = 2e-6


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that waits for nothing; the time of an event loop is not what is measured."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited for something")


def message(number: int) -> dict[str, Any]:
    role = ("user", "assistant")[number % 2]
    return {"role": role, "content": f"{number} " + "x" * 200}


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _cost(requests: list[float], copies: list[float], state: str) -> float:
    """Return the seconds of a request: at its best, or with its share of the compactions."""
    if state == "whole":
        return max(0.0, min(requests) - min(copies))
    batches = zip(*[iter(requests)] * BATCH, strict=True)
    return min(sum(batch) / BATCH for batch in batches)


@pytest.mark.parametrize("state", ["whole", "compacted"])
async def test_ten_times_the_messages_cost_at_most_twice_the_time(
    module_id: str, mount_context: Mount, tmp_path: Path, state: str
) -> None:
    budget, provider = 10**7 if state == "whole" else 20_000, MockProvider()
    contexts: dict[int, Any] = {}
    closes: list[Callable[[], Awaitable[None]]] = []
    for count in (SHORT, LONG):
        context, close = await mount_context(module_id, tmp_path / str(count))
        await context.set_messages([message(number) for number in range(count)])
        view = await context.get_messages_for_request(budget, provider)
        assert (len(view) == count) == (state == "whole")
        contexts[count] = context
        closes.append(close)

    # By turns, so that a busy moment of the machine meets both.
    requests: dict[int, list[float]] = {SHORT: [], LONG: []}
    copies: dict[int, list[float]] = {SHORT: [], LONG: []}
    gc.disable()
    try:
        for number in range(ROUNDS):
            for count, context in contexts.items():
                context.messages.append(message(count + number))
                ask = context.get_messages_for_request
                requests[count].append(seconds(lambda ask=ask: run(ask(budget, provider))))
                copies[count].append(seconds(context.messages.copy))
    finally:
        gc.enable()
    short, long = (_cost(requests[count], copies[count], state) for count in (SHORT, LONG))
    for close in closes:
        await close()

    assert long <= 2 * short + NOISE, f"{long * 1e6:.1f} us, {short * 1e6:.1f} us with {SHORT}"
