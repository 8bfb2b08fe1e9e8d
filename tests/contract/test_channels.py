"""Contract of contribution channels."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator
from contract.doubles import raising
from contract.requirements import requirement


@requirement("CHAN-1", "CHAN-12")
def test_a_contributor_is_registered_under_a_channel() -> None:
    coordinator = ModuleCoordinator()

    def events() -> list[str]:
        return ["my-tool:started"]

    register: Any = coordinator.register_contributor
    assert register("observability.events", "my-tool", events) is None
    assert register(channel="observability.events", name="other", callback=events) is None

    assert [entry["name"] for entry in coordinator.channels["observability.events"]] == [
        "my-tool",
        "other",
    ]
    assert coordinator.channels["observability.events"][0]["callback"] is events


@requirement("CHAN-2", "CHAN-3", "CHAN-7")
async def test_contributions_come_in_registration_order_one_after_the_other() -> None:
    coordinator = ModuleCoordinator()
    running: list[int] = []

    async def contribute(value: str) -> str:
        assert running == []
        running.append(1)
        await asyncio.sleep(0)
        running.clear()
        return value

    async def asynchronous() -> str:
        return await contribute("async")

    coordinator.register_contributor("c", "same", asynchronous)
    coordinator.register_contributor("c", "same", lambda: contribute("coroutine"))
    coordinator.register_contributor("c", "plain", lambda: "plain")

    assert await coordinator.collect_contributions("c") == ["async", "coroutine", "plain"]


@requirement("CHAN-4", "CHAN-6", "CHAN-8")
async def test_everything_but_none_is_passed_through_as_it_is() -> None:
    coordinator = ModuleCoordinator()
    values: list[Any] = [[], {}, 0, "", False, object(), ["a", "b"], print, None]
    for value in values:
        coordinator.register_contributor("c", "n", lambda value=value: value)

    collected = await coordinator.collect_contributions("c")

    assert len(collected) == len(values) - 1
    assert all(got is given for got, given in zip(collected, values, strict=False))
    assert await coordinator.collect_contributions("nobody") == []


@requirement("CHAN-5")
async def test_a_failing_contributor_is_logged_and_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = ModuleCoordinator()
    coordinator.register_contributor("metrics.snapshot", "before", lambda: 1)
    coordinator.register_contributor("metrics.snapshot", "broken", raising(RuntimeError("boom")))
    coordinator.register_contributor("metrics.snapshot", "after", lambda: 2)

    assert await coordinator.collect_contributions("metrics.snapshot") == [1, 2]

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "broken" in record.getMessage()
    assert "metrics.snapshot" in record.getMessage()


@requirement("CHAN-9", "CHAN-10")
async def test_contributions_are_made_anew_at_every_collection() -> None:
    coordinator = ModuleCoordinator()
    state: list[str] = []

    def dynamic() -> int | None:
        state.append("asked")
        return len(state) if len(state) != 2 else None

    coordinator.register_contributor("c", "dynamic", dynamic)
    assert state == []

    assert await coordinator.collect_contributions("c") == [1]
    assert await coordinator.collect_contributions("c") == []
    coordinator.register_contributor("c", "mounted later", lambda: "new")
    assert await coordinator.collect_contributions("c") == [3, "new"]


@requirement("CHAN-11")
async def test_a_cancelled_contributor_ends_the_collection_with_what_there_is() -> None:
    coordinator = ModuleCoordinator()
    coordinator.register_contributor("c", "one", lambda: 1)
    coordinator.register_contributor("c", "cancelled", raising(asyncio.CancelledError()))
    coordinator.register_contributor("c", "never", lambda: 2)

    async with asyncio.timeout(120):
        assert await coordinator.collect_contributions("c") == [1]


@requirement("CHAN-13")
async def test_a_channel_may_have_any_name_and_shares_nothing_with_its_like() -> None:
    channels = [
        "session.metadata",
        "Session.Metadata",
        "session",
        "session.",
        "session_metadata",
        "session-metadata",
        "session:metadata",
        "toolkit:debug-metrics",
        "toolkit:",
        "toolkit",
        " toolkit ",
        "a b\tc",
        "*",
        "Größe/量",
        "",
    ]
    coordinator = ModuleCoordinator()
    for channel in channels:
        coordinator.register_contributor(channel, "n", lambda channel=channel: {"of": channel})

    for channel in channels:
        assert await coordinator.collect_contributions(channel) == [{"of": channel}]
    assert list(coordinator.channels) == channels
