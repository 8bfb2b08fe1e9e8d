"""The module in a real session: a loop calls it, turns become checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amplifier_core import AmplifierSession


async def test_each_turn_of_a_session_can_be_undone_by_itself(work: Path) -> None:
    (work / "a.txt").write_text("old", encoding="utf-8")
    edit = {"file_path": "a.txt", "old_string": "old", "new_string": "new"}
    script: list[Any] = [
        {"tool_calls": [{"name": "read_file", "arguments": {"file_path": "a.txt"}}]},
        {"tool_calls": [{"name": "edit_file", "arguments": edit}]},
        {"tool_calls": [{"name": "write_file", "arguments": {"file_path": "b", "content": "1"}}]},
        "Done.",
        {"tool_calls": [{"name": "write_file", "arguments": {"file_path": "b", "content": "2"}}]},
        "Done again.",
    ]
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"script": script}}],
        "tools": [{"module": "tool-filesystem", "config": {"working_dir": str(work)}}],
    }

    async with AmplifierSession(plan) as session:
        await session.execute("Change the files.")
        await session.execute("Once more.")
        checkpoints: Any = session.coordinator.get_capability("files.checkpoints")
        turns = [(each.turn, len(each.paths)) for each in await checkpoints.list()]
        await checkpoints.undo(2)

    assert turns == [(1, 2), (2, 1)]
    assert (work / "a.txt").read_text(encoding="utf-8") == "new"
    assert (work / "b").read_text(encoding="utf-8") == "1"
