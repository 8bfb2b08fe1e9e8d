"""Looking before a change: it says what the call would say, and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

EDIT = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("edit_file", {**EDIT, "old_string": "none"}),
        ("edit_file", {**EDIT, "old_string": "e"}),
        ("edit_file", {**EDIT, "file_path": "missing.txt"}),
        ("edit_file", {"file_path": "a.txt"}),
        ("multi_edit", {"file_path": "a.txt", "edits": [{"old_string": "x", "new_string": "y"}]}),
        ("write_file", {"file_path": "../secret.txt", "content": "x"}),
        ("write_file", {"file_path": "folder", "content": "x"}),
        ("write_file", {"file_path": "a.txt", "content": "\ud800"}),
    ],
    ids=["absent", "twice", "no file", "no text", "one of several", "outside", "folder", "text"],
)
async def test_what_would_fail_is_said_beforehand_in_the_same_words(
    mounted: Any, work: Path, tool: str, given: dict[str, Any]
) -> None:
    (work / "a.txt").write_text("one two three", encoding="utf-8")
    (work / "folder").mkdir()

    said = await mounted.coordinator.get("tools", tool).preflight(given)
    result = await mounted.call(tool, **given)

    assert result.success is False
    assert said == result.error["message"]


@pytest.mark.parametrize(
    ("tool", "given"),
    [("edit_file", EDIT), ("write_file", {"file_path": "new/b.txt", "content": "b"})],
    ids=["edit", "write"],
)
async def test_looking_changes_nothing(
    mounted: Any, work: Path, tool: str, given: dict[str, Any]
) -> None:
    (work / "a.txt").write_text("one", encoding="utf-8")

    assert await mounted.coordinator.get("tools", tool).preflight(given) is None

    assert (work / "a.txt").read_text(encoding="utf-8") == "one"
    assert not (work / "new").exists()
    assert mounted.recorder.get_events("artifact:write") == []


async def test_a_file_that_changed_after_the_look_is_looked_at_again_when_it_is_edited(
    mounted: Any, work: Path
) -> None:
    (work / "a.txt").write_text("one", encoding="utf-8")
    assert await mounted.coordinator.get("tools", "edit_file").preflight(EDIT) is None
    (work / "a.txt").write_text("none of it: one, one", encoding="utf-8")

    result = await mounted.call("edit_file", **EDIT)

    assert result.success is False
    assert (work / "a.txt").read_text(encoding="utf-8") == "none of it: one, one"
