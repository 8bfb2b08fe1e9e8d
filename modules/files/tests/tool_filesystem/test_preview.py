"""Previews: the whole difference that a call would make, without making it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

EDIT = {"file_path": "a.txt", "old_string": "two", "new_string": "2\n3"}


async def preview(mounted: Any, tool: str, given: dict[str, Any]) -> Any:
    return await mounted.coordinator.get("tools", tool).preview_call(given)


async def test_an_edit_is_shown_with_its_place_and_not_made(mounted: Any, work: Path) -> None:
    (work / "a.txt").write_text("one\ntwo\nthree\n", "utf-8")

    made = await preview(mounted, "edit_file", EDIT)

    assert made.title == "this edit of a.txt"
    assert made.diff == "@@ -1,4 +1,5 @@\n one\n-two\n+2\n+3\n three\n "
    assert set(EDIT) <= set(made.covers)
    assert (work / "a.txt").read_text("utf-8") == "one\ntwo\nthree\n"


async def test_a_path_is_shown_as_the_place_it_leads_to(mounted: Any, work: Path) -> None:
    given = {"file_path": "x/../b/./new.txt", "content": "one\ntwo\n"}

    made = await preview(mounted, "write_file", given)

    assert made.title == "a new file b/new.txt"
    assert made.diff == "@@ -0,0 +1,2 @@\n+one\n+two"


async def test_nothing_of_a_long_change_is_left_out(mounted: Any, work: Path) -> None:
    lines = [f"{number} {'x' * 1_000}" for number in range(300)]
    (work / "a.txt").write_text("old\n", "utf-8")

    made = await preview(mounted, "write_file", {"file_path": "a.txt", "content": "\n".join(lines)})

    assert [line[1:] for line in made.diff.split("\n") if line.startswith("+")] == lines


async def test_line_ends_are_shown_only_if_they_change(mounted: Any, work: Path) -> None:
    (work / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (work / "b.txt").write_bytes(b"one\ntwo\r\n")

    same = await preview(mounted, "edit_file", {**EDIT, "new_string": "2"})
    mixed = await preview(mounted, "write_file", {"file_path": "b.txt", "content": "one\ntwo\n"})

    assert "\r" not in same.diff
    assert "-two\r" in mixed.diff


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("edit_file", {**EDIT, "old_string": "none"}),
        ("edit_file", {"file_path": "a.txt"}),
        ("write_file", {"file_path": "../out.txt", "content": "x"}),
        ("write_file", {"file_path": "binary", "content": "x"}),
        ("write_file", {"file_path": "a.txt", "content": "x\n" * 3_000}),
    ],
    ids=["absent", "incomplete", "outside", "bytes", "too long to compare"],
)
async def test_what_has_no_difference_has_no_preview(
    mounted: Any, work: Path, tool: str, given: dict[str, Any]
) -> None:
    (work / "a.txt").write_text("one\ntwo\n", "utf-8")
    (work / "binary").write_bytes(b"\xff\xfe")

    assert await preview(mounted, tool, given) is None
