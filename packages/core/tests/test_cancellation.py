"""Tests of the cancellation token: interrupts, and children that come and go."""

from __future__ import annotations

import asyncio

import pytest

from amplifier_core import CancellationToken
from contract.requirements import requirement


def test_an_interrupt_is_called_once_and_only_by_an_immediate_request() -> None:
    token = CancellationToken()
    calls: list[str] = []
    token.add_interrupt(lambda: calls.append("now"))

    token.request_graceful()
    assert calls == []
    token.request_immediate()
    token.request_immediate()

    assert calls == ["now"]


def test_an_interrupt_that_was_removed_is_not_called() -> None:
    token = CancellationToken()
    calls: list[str] = []

    def interrupt() -> None:
        calls.append("removed")

    token.add_interrupt(interrupt)
    token.add_interrupt(lambda: calls.append("kept"))

    token.remove_interrupt(interrupt)
    token.remove_interrupt(interrupt)
    token.request_immediate()

    assert calls == ["kept"]


def test_after_a_reset_the_next_request_interrupts_again() -> None:
    token = CancellationToken()
    calls: list[str] = []
    token.add_interrupt(lambda: calls.append("now"))

    token.request_immediate()
    token.reset()
    assert not token.is_cancelled
    token.request_immediate()

    assert calls == ["now", "now"]


@requirement("LAW-12")
def test_a_request_interrupts_children_and_grandchildren() -> None:
    parent, child, grandchild = CancellationToken(), CancellationToken(), CancellationToken()
    calls: list[str] = []
    parent.register_child(child)
    child.register_child(grandchild)
    for name, token in (("child", child), ("grandchild", grandchild)):
        token.add_interrupt(lambda name=name: calls.append(name))

    parent.request_immediate()

    assert calls == ["child", "grandchild"]


@requirement("LAW-12")
def test_a_child_that_came_or_was_reset_later_is_reached_by_a_repeated_request() -> None:
    parent, child = CancellationToken(), CancellationToken()
    parent.register_child(child)
    parent.request_graceful()
    child.reset()

    assert parent.request_graceful() is False
    assert child.is_graceful


def test_a_child_that_left_is_not_reached() -> None:
    parent, child, stranger = CancellationToken(), CancellationToken(), CancellationToken()
    parent.unregister_child(stranger)
    parent.register_child(child)
    parent.unregister_child(child)

    parent.request_immediate()

    assert not child.is_cancelled


def test_a_tool_that_never_started_may_complete() -> None:
    token = CancellationToken()

    token.register_tool_complete("unknown")

    assert (token.running_tools, token.running_tool_names) == (set(), [])


async def test_a_cancellation_of_the_caller_is_raised_after_all_callbacks() -> None:
    token = CancellationToken()
    ran: list[str] = []
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    token.on_cancel(hang)
    token.on_cancel(lambda: ran.append("after"))

    async with asyncio.timeout(120):
        triggering = asyncio.create_task(token.trigger_callbacks())
        await started.wait()
        triggering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await triggering

    assert ran == ["after"]
