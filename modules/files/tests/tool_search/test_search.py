"""What grep and glob find, show and leave out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.effects import Declaration, declaration_of

Write = Callable[..., Path]
Start = Callable[..., Awaitable[Any]]


async def test_lines_come_with_path_and_number_in_the_order_of_names(
    mounted: Any, write: Write
) -> None:
    write("b.py", "one\ntwo needle\n")
    write("a/c.py", "needle")
    write("a.txt", "none\n")

    assert await mounted.lines("grep", pattern="ne+dle") == ["a/c.py:1:needle", "b.py:2:two needle"]
    assert (await mounted.call("grep", pattern="need")).output.startswith(
        "[2 matching lines in 2 files]\n"
    )


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"pattern": "b.c", "literal": True}, ["x:2:b.c"]),
        ({"pattern": "B.C"}, []),
        ({"pattern": "B.C", "ignore_case": True}, ["x:1:bac", "x:2:b.c"]),
        ({"pattern": "c$"}, ["x:1:bac", "x:2:b.c"]),
        ({"pattern": "^ä"}, ["x:3:ä:1:2"]),
        ({"pattern": "--files"}, ["x:4:--files"]),
        ({"pattern": "^$"}, []),
        ({"pattern": "b", "files_only": True}, ["x: 2"]),
        ({"pattern": "b", "path": "x"}, ["x:1:bac", "x:2:b.c"]),
    ],
)
async def test_both_programs_find_the_same(
    mounted: Any, write: Write, asked: dict[str, Any], found: list[str]
) -> None:
    write("x", "bac\r\nb.c\r\nä:1:2\n--files\n")

    assert await mounted.lines("grep", **asked) == found


async def test_counts_are_true_when_not_everything_is_shown(start: Start, write: Write) -> None:
    mounted = await start(max_results=3)
    for name in "abcde":
        write(f"{name}.txt", "needle\n" * 4)

    grep = (await mounted.call("grep", pattern="needle")).output.split("\n")
    glob = (await mounted.call("glob", pattern="*.txt")).output.split("\n")

    assert grep[0] == "[20 matching lines in 5 files]"
    assert grep[1:4] == ["a.txt:1:needle", "a.txt:2:needle", "a.txt:3:needle"]
    assert grep[4].startswith("[17 more;")
    assert glob[:4] == ["[5 files]", "a.txt", "b.txt", "c.txt"]
    assert glob[4].startswith("[2 more;")


async def test_a_result_stays_below_what_contexts_put_aside(mounted: Any, write: Write) -> None:
    write("long.txt", ("x" * 5_000 + "needle" + "y" * 5_000 + "\n") * 150)

    output = (await mounted.call("grep", pattern="needle")).output

    assert len(output) < 20_000
    assert all("xneedley" in line for line in output.split("\n")[1:-1])
    assert "more; narrow" in output


async def test_more_files_than_one_batch_are_all_searched(mounted: Any, write: Write) -> None:
    for number in range(450):
        write(f"{number:03}.txt")

    output = (await mounted.call("grep", pattern="needle", files_only=True)).output

    assert output.startswith("[450 matching lines in 450 files]\n000.txt: 1\n")


async def test_what_is_left_out_is_counted(start: Start, work: Path, write: Write) -> None:
    mounted = await start(max_file_bytes=100)
    write(".gitignore", "*.log\n/build/\n")
    for name in ("a.log", "build/x", ".hidden", "bin", "large", "seen"):
        write(name)
    (work / "bin").write_bytes(b"\0needle\n")
    write("large", "needle\n" * 100)
    (work / "link").symlink_to("seen")

    output = (await mounted.call("grep", pattern="needle")).output

    assert "\nseen:1:needle\n" in output
    for count in ("2 hidden", "2 ignored", "1 links", "1 binary", "1 above 100 bytes"):
        assert count in output


async def test_hidden_and_ignored_files_are_found_when_asked_for(
    mounted: Any, write: Write
) -> None:
    write(".gitignore", "*.log\n")
    for name in (".hidden", "a.log", ".git/config"):
        write(name)

    assert await mounted.lines("glob", pattern="*") == []
    everything = {"pattern": "*", "include_hidden": True, "include_ignored": True}
    assert await mounted.lines("glob", **everything) == [".gitignore", ".hidden", "a.log"]


async def test_ignore_files_count_from_above_and_from_below(mounted: Any, write: Write) -> None:
    write(".gitignore", "# a comment\n\n*.tmp\n/top\n\\#odd\n")
    write("sub/.gitignore", "!kept.tmp\nonly/\n/here\n")
    for name in ("a.tmp", "top", "#odd", "sub/top", "sub/b.tmp", "sub/kept.tmp", "sub/only/x"):
        write(name)
    for name in ("sub/here", "sub/deep/here", "sub/deep/only"):
        write(name)

    kept = ["sub/deep/here", "sub/deep/only", "sub/kept.tmp", "sub/top"]
    assert await mounted.lines("glob", pattern="*") == kept
    assert await mounted.lines("glob", pattern="*", path="sub") == kept


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/er/c.py"]),
        ("/*.py", ["a.py"]),
        ("./*.py", ["a.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/er/c.py"]),
        ("**/er/*", ["src/deep/er/c.py"]),
        ("src/**", ["src/b.py", "src/d.ts", "src/deep/er/c.py", "src/e.tsx"]),
        ("*.{ts,tsx}", ["src/d.ts", "src/e.tsx"]),
        ("[!a].p?", ["src/b.py", "src/deep/er/c.py"]),
        ("**/deep/**/deep/**", []),
        ("src", []),
    ],
)
async def test_a_glob_means_names_or_paths(
    start: Start, write: Write, pattern: str, found: list[str]
) -> None:
    mounted = await start()
    for name in ("a.py", "src/b.py", "src/d.ts", "src/e.tsx", "src/deep/er/c.py"):
        write(name)

    assert await mounted.lines("glob", pattern=pattern) == found
    assert await mounted.lines("grep", pattern="needle", glob=pattern) == [
        f"{name}:1:needle" for name in found
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"pattern": "("}, "The pattern cannot be used: regex parse error"),
        ({"pattern": "x", "path": "missing"}, "no such file or folder"),
        ({"pattern": "x", "paht": "."}, "paht: Extra inputs"),
        ({"pattern": ""}, "pattern: String should match"),
        ({"pattern": "a\nb"}, "pattern: String should match"),
        ({"pattern": "\udc00"}, "pattern: Input should be a valid string"),
        ({"pattern": "x", "glob": "{a,b}" * 9}, "more than 100 others"),
    ],
)
async def test_what_cannot_be_searched_is_said(
    mounted: Any, write: Write, asked: dict[str, Any], said: str
) -> None:
    write("x")

    result = await mounted.call("grep", **asked)

    assert not result.success
    assert said in result.error["message"]


async def test_the_tools_declare_what_they_are(start: Start) -> None:
    mounted = await start(timeout_seconds=7)

    for name in ("grep", "glob"):
        declared = declaration_of(mounted.coordinator.get("tools", name))
        assert declared == Declaration("pure", 12.0, output_trusted=False)
