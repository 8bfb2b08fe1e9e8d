"""Undo: a turn's files come back, a person's edits stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


async def test_a_turn_can_be_undone_and_the_undo_too(mounted: Any, work: Path) -> None:
    (work / "a.txt").write_text("old", encoding="utf-8")
    await mounted.begin_turn()
    await mounted.call("edit_file", file_path="a.txt", old_string="old", new_string="new")
    await mounted.call("write_file", file_path="b.txt", content="made")
    await mounted.begin_turn()
    await mounted.call("write_file", file_path="c.txt", content="later")

    assert [each.turn for each in await mounted.checkpoints.list()] == [1, 2]
    await mounted.checkpoints.undo(1)
    assert (work / "a.txt").read_text(encoding="utf-8") == "old"
    assert not (work / "b.txt").exists()
    assert (work / "c.txt").exists()

    await mounted.checkpoints.undo(3)
    assert (work / "a.txt").read_text(encoding="utf-8") == "new"
    assert (work / "b.txt").read_text(encoding="utf-8") == "made"


async def test_a_persons_edit_is_kept_announced_and_shown(mounted: Any, work: Path) -> None:
    await mounted.call("write_file", file_path="a.txt", content="made")
    await mounted.call("write_file", file_path="b.txt", content="made")
    (work / "a.txt").write_text("made, and mine", encoding="utf-8")

    (preview, _) = await mounted.checkpoints.preview(1)
    await mounted.checkpoints.undo(1)

    assert (preview.action, preview.reason) == ("keep", "it was changed after the turn")
    assert (work / "a.txt").read_text(encoding="utf-8") == "made, and mine"
    ((_, data),) = mounted.recorder.get_events("files:undone")
    assert data["restored"] == [f"{work}/b.txt"]
    assert data["kept"] == {f"{work}/a.txt": "it was changed after the turn"}
    line = f"`{work}/a.txt` was not taken back: it was changed after the turn."
    assert mounted.screen.lines == [f"tool-filesystem warning: {line}"]


async def test_after_an_undo_a_file_has_to_be_read_again(mounted: Any, work: Path) -> None:
    (work / "a.txt").write_text("old", encoding="utf-8")
    await mounted.call("write_file", file_path="a.txt", content="new")
    await mounted.checkpoints.undo(1)

    result = await mounted.call("write_file", file_path="a.txt", content="newer")

    assert result.error["rule"] == "changed"


async def test_an_unknown_turn_is_an_error(mounted: Any) -> None:
    with pytest.raises(LookupError, match="turn 4"):
        await mounted.checkpoints.undo(4)


async def test_nothing_is_changed_when_it_cannot_be_saved(
    mounted: Any, work: Path, tmp_path: Path
) -> None:
    (work / "a.txt").write_text("old", encoding="utf-8")
    (tmp_path / "home").write_text("a file where a folder has to be", encoding="utf-8")

    result = await mounted.call("write_file", file_path="a.txt", content="new")

    assert not result.success
    assert "file system says" in result.error["message"]
    assert (work / "a.txt").read_text(encoding="utf-8") == "old"
