"""A session that failed to open is listed as failed, and is not what `last` means."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.errors import SessionError
from amplifier_core.llm_errors import AuthenticationError
from amplifier_foundation.live import open_live
from amplifier_foundation.store import SessionStore
from end_to_end.recorded_sessions import plan_of


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "home")


async def one_turn(plan: dict[str, Any], store: SessionStore, folder: Path, **more: Any) -> str:
    async with open_live(plan, store=store, project=folder, **more) as live:
        await live.execute("Hello")
        return live.session_id


async def refused(store: SessionStore, folder: Path, **more: Any) -> None:
    plan = plan_of(["Hi."], loop="loop-that-is-not-there")
    with pytest.raises(SessionError):
        async with open_live(plan, store=store, project=folder, **more):
            pytest.fail("the session started")


async def test_last_is_not_a_session_that_failed_to_open(
    store: SessionStore, tmp_path: Path
) -> None:
    opened = await one_turn(plan_of(["Hi."]), store, tmp_path)
    await refused(store, tmp_path, session_id="broken")

    assert [(each.session_id, each.status) for each in store.list()] == [
        ("broken", "failed"),
        (opened, "completed"),
    ]
    assert store.find("last") == opened
    assert store.find("bro") == "broken"


async def test_a_session_whose_instructions_are_not_taken_failed_to_open(
    store: SessionStore, tmp_path: Path
) -> None:
    with pytest.raises(AttributeError):
        async with open_live(
            plan_of(["Hi."]), store=store, project=tmp_path, instructions=["no instruction"]
        ):
            pytest.fail("the session started")

    assert [each.status for each in store.list()] == ["failed"]


async def test_a_session_whose_opening_is_cancelled_is_released(
    store: SessionStore, tmp_path: Path
) -> None:
    with pytest.raises(TimeoutError):
        # Cancelled at its first wait, which is the one for the thread that takes the lock.
        async with asyncio.timeout(0):
            await one_turn(plan_of(["Hi."]), store, tmp_path, session_id="cancelled")

    assert store.holder("cancelled") is None


async def test_a_session_that_failed_to_open_is_the_last_one_when_it_does_open(
    store: SessionStore, tmp_path: Path
) -> None:
    await one_turn(plan_of(["Hi."]), store, tmp_path)
    await refused(store, tmp_path, session_id="broken")

    async with open_live(
        plan_of(["Hi."]), store=store, project=tmp_path, session_id="broken", resume=True
    ):
        assert store.find("last") == "broken"
        assert store.list()[0].status == "running"


async def test_a_session_with_turns_that_is_not_resumed_is_listed_as_they_ended(
    store: SessionStore, tmp_path: Path
) -> None:
    session_id = await one_turn(plan_of(["Hi."]), store, tmp_path)
    await refused(store, tmp_path, session_id=session_id, resume=True)

    assert [(each.status, each.turns) for each in store.list()] == [("completed", 1)]
    assert store.find("last") == session_id


async def test_a_session_whose_first_turn_failed_did_open(
    store: SessionStore, tmp_path: Path
) -> None:
    await one_turn(plan_of(["Hi."]), store, tmp_path)
    with pytest.raises(AuthenticationError):
        await one_turn(
            plan_of([{"error": "AuthenticationError"}]), store, tmp_path, session_id="failed"
        )

    assert store.list()[0].status == "failed"
    assert store.find("last") == "failed"
