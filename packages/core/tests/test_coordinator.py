"""Tests of the coordinator in the cases the contract tests leave open."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator
from amplifier_core.errors import MountError
from contract.stand_ins import raising


async def test_a_mount_point_put_in_by_hand_is_known_and_stays_as_it_is() -> None:
    coordinator = ModuleCoordinator()
    coordinator.mount_points["extra"] = "by hand"

    await coordinator.mount("extra", object())

    assert coordinator.mount_points["extra"] == "by hand"
    assert coordinator.get("extra") is None


async def test_unmounting_the_hooks_has_no_effect() -> None:
    coordinator = ModuleCoordinator()
    hooks = coordinator.hooks

    await coordinator.unmount("hooks")

    assert coordinator.get("hooks") is hooks


async def test_the_seeds_mount_point_reads_and_empties_the_single_slots() -> None:
    coordinator = ModuleCoordinator()
    memory = object()
    await coordinator.mount("session", memory, name="context")

    assert coordinator.get("session", "context") is memory
    assert coordinator.get_mounted("context") is memory
    await coordinator.unmount("session", name="context")
    assert coordinator.get("session", "context") is None
    with pytest.raises(MountError, match="Unknown mount point: session"):
        await coordinator.mount("session", memory, name="tools")


async def test_mounting_and_awaiting_twice_is_harmless() -> None:
    coordinator = ModuleCoordinator()

    mounted = coordinator.mount("tools", "tool", name="t")
    await mounted
    await mounted

    assert coordinator.get("tools") == {"t": "tool"}


async def test_a_cleanup_that_is_released_early_does_not_run_again() -> None:
    coordinator = ModuleCoordinator()
    ran: list[str] = []

    async def early() -> None:
        ran.append("early")

    def late() -> None:
        ran.append("late")

    for cleanup in (early, late):
        coordinator.register_cleanup(cleanup)

    await coordinator.release(early)
    assert ran == ["early"]
    await coordinator.cleanup()

    assert ran == ["early", "late"]


async def test_a_stranger_can_be_released_and_its_failure_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = ModuleCoordinator()

    await coordinator.release(raising(RuntimeError("boom")))

    assert "Error during cleanup" in caplog.text
    assert "boom" in caplog.text


async def test_what_is_no_cleanup_in_the_live_list_is_skipped() -> None:
    coordinator = ModuleCoordinator()
    ran: list[str] = []
    coordinator.register_cleanup(lambda: ran.append("real"))
    stray: Any = "not callable"
    coordinator._cleanup_fns.append(stray)

    await coordinator.cleanup()

    assert ran == ["real"]
    assert coordinator._cleanup_fns == []


async def test_a_cleanup_may_register_another_one() -> None:
    coordinator = ModuleCoordinator()
    ran: list[str] = []

    def first() -> None:
        ran.append("first")
        coordinator.register_cleanup(lambda: ran.append("second"))

    coordinator.register_cleanup(first)

    await coordinator.cleanup()

    assert ran == ["first", "second"]


async def test_a_cancelled_cleanup_lets_the_others_run_first() -> None:
    coordinator = ModuleCoordinator()
    started = asyncio.Event()
    ran: list[str] = []

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    coordinator.register_cleanup(lambda: ran.append("first registered"))
    coordinator.register_cleanup(hang)

    async with asyncio.timeout(5):
        cleaning = asyncio.create_task(coordinator.cleanup())
        await started.wait()
        cleaning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cleaning

    assert ran == ["first registered"]


@pytest.mark.parametrize("config", [{"session": None}, {"session": "text"}, None, []])
def test_a_config_without_a_session_section_sets_no_limits(config: Any) -> None:
    session = SimpleNamespace(session_id="s", parent_id=None, config=config)

    coordinator = ModuleCoordinator(session)

    assert coordinator.injection_size_limit is None
    assert coordinator.injection_budget_per_turn is None
