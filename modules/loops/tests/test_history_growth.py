"""Tests that a request costs what is new in it, however long the history is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from amplifier_core import ChatRequest, Message
from amplifier_module_loops.request_history import RequestHistory

ROUNDS = 400


def conversation(length: int) -> Callable[[], object]:
    """Make a session of so many messages; each call adds two and makes a request of them all."""
    stored: list[dict[str, Any]] = [
        {"role": ("user", "assistant")[number % 2], "content": f"message number {number}"}
        for number in range(length)
    ]
    history = RequestHistory()
    history.prepare(stored)

    def request() -> ChatRequest:
        stored.append({"role": "user", "content": "more"})
        stored.append({"role": "assistant", "content": "even more"})
        messages, _ = history.prepare(stored)
        request = ChatRequest(messages=[])
        request.messages = messages
        return request

    return request


def messages_of_their_own(count: int) -> list[Message]:
    return [Message(role="user", content=str(number)) for number in range(count)]


def nanoseconds(work: Callable[[], object]) -> int:
    start = time.process_time_ns()
    work()
    return time.process_time_ns() - start


def test_a_request_of_5000_messages_costs_at_most_twice_that_of_500() -> None:
    """Apart from the copy of the list that a request gets; the best of many interleaved rounds."""
    short, long = conversation(500), conversation(5_000)
    few, many = messages_of_their_own(500), messages_of_their_own(5_000)
    work = [short, long, few.copy, many.copy]
    costs = [[nanoseconds(each) for each in work] for _ in range(ROUNDS)]
    small, large, small_copy, large_copy = (min(each) for each in zip(*costs, strict=True))

    assert large - large_copy <= 2 * (small - small_copy)
