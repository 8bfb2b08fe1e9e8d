"""Tests of contribution channels when the consumer is cancelled or the channel changes."""

from __future__ import annotations

import asyncio

import pytest

from amplifier_core import ModuleCoordinator
from contract.doubles import raising
from contract.requirements import requirement


async def test_cancelling_the_collector_reaches_contributor_and_collector() -> None:
    coordinator = ModuleCoordinator()
    started = asyncio.Event()
    ended: list[str] = []

    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("contributor")

    coordinator.register_contributor("channel", "slow", hang)
    async with asyncio.timeout(120):
        collecting = asyncio.create_task(coordinator.collect_contributions("channel"))
        await started.wait()
        collecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await collecting

    assert ended == ["contributor"]


@requirement("CHAN-10")
async def test_who_registers_during_a_collection_is_asked_in_the_next_one() -> None:
    coordinator = ModuleCoordinator()

    def newcomer() -> str:
        return "new"

    def first() -> str:
        coordinator.register_contributor("channel", "newcomer", newcomer)
        return "first"

    coordinator.register_contributor("channel", "first", first)

    assert await coordinator.collect_contributions("channel") == ["first"]
    assert await coordinator.collect_contributions("channel") == ["first", "new"]


async def test_a_failure_is_logged_with_channel_and_name(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = ModuleCoordinator()
    coordinator.register_contributor("channel", "broken", raising(RuntimeError("boom")))

    assert await coordinator.collect_contributions("channel") == []
    assert "channel=channel contributor=broken" in caplog.text
    assert "boom" in caplog.text


async def test_a_collection_that_ends_early_is_logged_with_channel_and_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = ModuleCoordinator()
    coordinator.register_contributor("channel", "gone", raising(asyncio.CancelledError()))

    assert await coordinator.collect_contributions("channel") == []
    assert "channel=channel contributor=gone" in caplog.text
