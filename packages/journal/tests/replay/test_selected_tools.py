"""Replaying sessions of the event-driven loop, in which another tool ran than the model called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core import HookResult
from amplifier_foundation.live import open_live
from amplifier_foundation.replay import replay
from amplifier_foundation.store import SessionStore
from contract.installer import Installer
from end_to_end.recorded_sessions import call, files, plan_of


async def _mount_scheduler(coordinator: Any, config: dict[str, Any]) -> None:
    async def schedule(event: str, data: dict[str, Any]) -> HookResult:
        if data["tool_name"] != "write_file":
            return HookResult()
        instead = {"tool": "list_directory", "tool_input": {"path": "."}}
        return HookResult(action="modify", data=instead)

    coordinator.hooks.register("tool:selecting", schedule, name="scheduler")


async def test_the_tool_that_ran_is_recorded_for_the_call_and_the_session_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Installer(monkeypatch).add("hooks-scheduler", _mount_scheduler)
    calls = [call("write_file", file_path="a", content="b"), call("list_directory", path=".")]
    plan = plan_of(
        [{"tool_calls": calls}, "Done."],
        loop="loop-events",
        tools=(files(tmp_path / "saved"),),
        hooks=({"module": "hooks-scheduler"},),
    )
    store = SessionStore(tmp_path / "home")
    project = tmp_path / "project"
    project.mkdir()

    async with open_live(plan, store=store, project=project) as live:
        await live.execute("Write a file.")
    record = store.read(live.session_id)
    ran = [each.data for each in record.records() if each.kind == "tool.call"]

    assert [each["tool"] for each in ran] == ["list_directory", "list_directory"]
    assert len({each["tool_call_id"] for each in ran}) == 2
    assert not (await replay(record)).differences
