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


@pytest.mark.parametrize(
    ("path", "first", "all_words"),
    [
        ("src/app/x.py", "src/app", ["`src/app/`", "`src/`", "the whole project"]),
        ("./src//app/../x.py", "src", ["`src/`", "the whole project"]),
        ("x.py", "", ["the whole project"]),
    ],
)
@pytest.mark.parametrize("tool", ["write_file", "edit_file", "multi_edit"])
def test_one_answer_can_be_about_the_edits_in_a_folder(
    mounted: Any, work: Path, tool: str, path: str, first: str, all_words: list[str]
) -> None:
    texts = {"old_string": "a", "new_string": "b"}
    content = {
        "write_file": {"content": ""},
        "edit_file": texts,
        "multi_edit": {"edits": [texts]},
    }[tool]

    scopes = mounted.coordinator.get_mounted("tools")[tool].call_scopes(
        {"file_path": path, **content}
    )

    assert scopes[0].key == f"edits {work / first}"
    assert [each.words for each in scopes] == [f"edits in {each}" for each in all_words]


@pytest.mark.attack("W1")
@pytest.mark.parametrize("path", ["../x", "/etc/passwd", ".git/config", "src/../../x", "a\0b"])
def test_a_file_that_is_not_written_is_in_no_scope(mounted: Any, path: str) -> None:
    tool = mounted.coordinator.get_mounted("tools")["write_file"]

    assert tool.call_scopes({"file_path": path, "content": ""}) == []
    assert tool.call_scopes({"path": path}) == []
