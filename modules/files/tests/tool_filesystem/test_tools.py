"""The tools: what they return, and what they do to files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.effects import declaration_of
from amplifier_core.models import ToolResult

Call = Callable[..., Awaitable[ToolResult]]


def message(result: ToolResult) -> str:
    """Return what a failure says."""
    assert not result.success
    assert result.error is not None
    return result.error["message"]


async def output(calling: Awaitable[ToolResult]) -> str:
    """Return what a call that succeeds gives to the model."""
    result = await calling
    assert result.success
    return result.get_serialized_output()


# --- reading -------------------------------------------------------------------------------------


async def test_a_file_is_read_under_a_line_that_names_it(call: Call, work: Path) -> None:
    (work / "a.txt").write_text("one\ntwo\n", encoding="utf-8")

    result = await call("read_file", file_path="a.txt")

    assert result.output == f"[{work}/a.txt: lines 1-2 of 2]\none\ntwo\n"


async def test_a_range_is_read_and_the_next_one_named(call: Call, work: Path) -> None:
    (work / "a.txt").write_text("\n".join("abcdef"), encoding="utf-8")

    result = await call("read_file", file_path=f"{work}/a.txt", offset=2, limit=3)
    beyond = await call("read_file", file_path="a.txt", offset=9)

    assert result.output == f"[{work}/a.txt: lines 2-4 of 6; next: offset=5]\nb\nc\nd\n"
    assert beyond.output == f"[{work}/a.txt: nothing at line 9, it has 6 lines]\n"


async def test_a_long_file_comes_in_parts_that_add_up(call: Call, work: Path) -> None:
    text = "".join(f"line {number} {'x' * 80}\n" for number in range(1_000))
    (work / "a.txt").write_text(text, encoding="utf-8")
    parts, offset = "", 1
    while offset:
        read = await output(call("read_file", file_path="a.txt", offset=offset))
        header, _, part = read.partition("\n")
        parts += part
        assert len(read) < 20_000
        offset = int(header.rpartition("offset=")[2].rstrip("]")) if "offset=" in header else 0

    assert parts == text


async def test_a_line_of_any_length_is_cut_and_counted(call: Call, work: Path) -> None:
    (work / "a.txt").write_text("x" * 1_000_000 + "\nnext", encoding="utf-8")

    read = await output(call("read_file", file_path="a.txt"))

    assert "the first 18,000 of 1,000,001 characters of line 1; next: offset=2" in read
    assert len(read) < 20_000


async def test_an_empty_file_has_no_lines(call: Call, work: Path) -> None:
    (work / "a.txt").touch()

    assert "it has 0 lines" in await output(call("read_file", file_path="a.txt"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"a\0b", "binary file of 3 bytes"), (b"caf\xe9", "not UTF-8: byte 3 is 0xe9")],
)
async def test_what_is_no_text_is_refused_with_a_reason(
    call: Call, work: Path, content: bytes, expected: str
) -> None:
    (work / "a").write_bytes(content)

    assert expected in message(await call("read_file", file_path="a"))
    edit = await call("edit_file", file_path="a", old_string="a", new_string="b")
    assert expected in message(edit)
    assert (work / "a").read_bytes() == content


async def test_a_missing_file_is_said_to_be_missing(call: Call) -> None:
    for tool, given in (
        ("read_file", {"file_path": "none"}),
        ("edit_file", {"file_path": "none", "old_string": "a", "new_string": "b"}),
        ("list_directory", {"path": "none"}),
    ):
        assert "no such file" in message(await call(tool, **given))


# --- writing -------------------------------------------------------------------------------------


async def test_a_new_file_is_written_with_its_folders(call: Call, work: Path) -> None:
    result = await call("write_file", file_path="deep/er/a.txt", content="one\n")

    assert (work / "deep/er/a.txt").read_text(encoding="utf-8") == "one\n"
    assert result.output == f"[{work}/deep/er/a.txt: created, 4 bytes]\n@@ -1,1 +1,2 @@\n+one\n "


async def test_the_result_of_a_write_shows_the_difference(call: Call, work: Path) -> None:
    (work / "a.txt").write_text("one\ntwo\n", encoding="utf-8")

    told = await output(call("write_file", file_path="a.txt", content="one\n2\n"))

    assert "changed, 6 bytes]" in told
    assert "-two\n+2\n" in told


async def test_writing_the_same_again_changes_nothing(call: Call, work: Path) -> None:
    await call("write_file", file_path="a.txt", content="one")
    before = (work / "a.txt").stat()

    told = await output(call("write_file", file_path="a.txt", content="one"))

    assert "already as asked" in told
    assert (work / "a.txt").stat() == before


async def test_a_file_with_crlf_keeps_it(call: Call, work: Path) -> None:
    (work / "a.txt").write_bytes(b"one\r\ntwo\r\n")

    await call("edit_file", file_path="a.txt", old_string="one\ntwo", new_string="1\n2")
    assert (work / "a.txt").read_bytes() == b"1\r\n2\r\n"
    await call("write_file", file_path="a.txt", content="x\ny")
    assert (work / "a.txt").read_bytes() == b"x\r\ny"


async def test_a_binary_file_may_be_replaced_as_a_whole(call: Call, work: Path) -> None:
    (work / "a").write_bytes(b"\xff\xfe")

    told = await output(call("write_file", file_path="a", content="text"))

    assert "[2 bytes are now 4 bytes]" in told


async def test_a_text_that_is_no_unicode_is_refused(call: Call, work: Path) -> None:
    assert "surrogate" in message(await call("write_file", file_path="a", content="\ud800"))
    assert not (work / "a").exists()


async def test_a_file_too_large_is_neither_written_nor_replaced(call: Call, work: Path) -> None:
    with (work / "big").open("wb") as file:
        file.truncate(10_000_001)

    for given in (
        {"file_path": "new", "content": "x" * 10_000_001},
        {"file_path": "big", "content": ""},
    ):
        result = await call("write_file", **given)
        assert "limit is 10,000,000" in message(result)
    assert (work / "big").stat().st_size == 10_000_001
    assert not (work / "new").exists()


# --- editing -------------------------------------------------------------------------------------


async def test_an_edit_that_fits_twice_changes_nothing(call: Call, work: Path) -> None:
    (work / "a.py").write_text("x\ny\nx\n", encoding="utf-8")

    result = await call("edit_file", file_path="a.py", old_string="x", new_string="z")

    assert "2 times, at lines 1, 3." in message(result)
    assert (work / "a.py").read_text(encoding="utf-8") == "x\ny\nx\n"


async def test_several_edits_are_made_together_or_not_at_all(call: Call, work: Path) -> None:
    (work / "a.py").write_text("one\ntwo\n", encoding="utf-8")
    good = {"old_string": "one", "new_string": "1"}
    bad = {"old_string": "three", "new_string": "3"}

    refused = await call("multi_edit", file_path="a.py", edits=[good, bad])
    assert message(refused).startswith("Edit 2: ")
    assert (work / "a.py").read_text(encoding="utf-8") == "one\ntwo\n"

    done = await call(
        "multi_edit", file_path="a.py", edits=[good, {"old_string": "two", "new_string": "2"}]
    )
    assert done.success
    assert (work / "a.py").read_text(encoding="utf-8") == "1\n2\n"


async def test_edits_of_one_answer_do_not_lose_each_other(call: Call, work: Path) -> None:
    words = [f"word{number:02}" for number in range(20)]
    (work / "a.txt").write_text("\n".join(words), encoding="utf-8")

    results = await asyncio.gather(
        *(
            call("edit_file", file_path="a.txt", old_string=word, new_string=word.upper())
            for word in words
        )
    )

    assert all(result.success for result in results)
    assert (work / "a.txt").read_text(encoding="utf-8") == "\n".join(words).upper()


# --- listing -------------------------------------------------------------------------------------


async def test_a_folder_is_listed_by_name(call: Call, work: Path) -> None:
    (work / "b.txt").write_text("text", encoding="utf-8")
    (work / "a").mkdir()
    (work / "c").symlink_to("b.txt")
    (work / "odd\nname\x1b[31m").touch()

    assert (await output(call("list_directory"))).split("\n") == [
        f"[{work}: 4 entries]",
        "a/",
        "b.txt  4",
        "c@",
        "odd\\nname\\u001b[31m  0",
    ]


async def test_a_large_folder_is_cut_and_counted(call: Call, work: Path) -> None:
    for number in range(600):
        (work / f"{number:03}").touch()

    lines = (await output(call("list_directory", path=str(work)))).split("\n")

    assert (lines[0], lines[-1]) == (f"[{work}: 600 entries]", "[100 more entries]")
    assert len(lines) == 502


async def test_a_folder_of_long_names_is_cut_and_counted(call: Call, work: Path) -> None:
    for number in range(100):
        (work / f"{number:03}{'x' * 240}").touch()

    listed = await output(call("list_directory"))
    lines = listed.split("\n")

    assert lines[-1] == f"[{100 - (len(lines) - 2)} more entries]"
    assert 17_000 < len(listed) < 20_000


async def test_a_name_that_is_no_unicode_is_listed_and_not_opened(call: Call, work: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    (work / name).write_text("text", encoding="utf-8")

    assert "caf\\udce9  4" in await output(call("list_directory"))
    assert "file_path" in message(await call("read_file", file_path=name))


# --- what they say of themselves -----------------------------------------------------------------


async def test_every_tool_declares_what_it_does(mounted: Any) -> None:
    tools = mounted.coordinator.get("tools")

    effects = {name: declaration_of(tool).effect for name, tool in tools.items()}
    assert effects == {
        "read_file": "pure",
        "write_file": "idempotent",
        "edit_file": "unsafe",
        "multi_edit": "unsafe",
        "list_directory": "pure",
    }
    for tool in tools.values():
        assert declaration_of(tool)[1:] == (60.0, False)
        assert "$ref" not in str(tool.input_schema)
        assert tool.input_schema["additionalProperties"] is False


async def test_an_unknown_parameter_is_named(call: Call) -> None:
    assert "colour: Extra inputs" in message(await call("read_file", file_path="a", colour="red"))
    assert "file_path: Field required" in message(await call("read_file"))


async def test_files_are_announced_with_their_sizes(mounted: Any, work: Path) -> None:
    await mounted.call("write_file", file_path="a.txt", content="four")
    await mounted.call("read_file", file_path="a.txt")
    await mounted.call("read_file", file_path="none")

    heard = [(event, data["path"], data["bytes"]) for event, data in mounted.recorder.events]
    path = f"{work}/a.txt"
    assert heard == [("artifact:write", path, 4), ("artifact:read", path, 4)]
