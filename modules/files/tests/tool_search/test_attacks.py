"""Attacks on the search: out of the folder, out of time, and by what lies in the folder."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.models import ToolResult
from amplifier_module_files.patterns import PathPattern

Write = Callable[..., Path]
Start = Callable[..., Awaitable[Any]]

HOSTILE = "(a+)+$"

pytestmark = pytest.mark.usefixtures("resolves")


def children() -> set[str]:
    """Return the commands of the processes that this one has started and that still run."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text(encoding="utf-8").split():
            command = Path(f"/proc/{pid}/cmdline")
            found.add(command.read_bytes().decode() if command.exists() else "")
    return {each for each in found if each}


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - another process, not an event
            await asyncio.sleep(0.01)


def rule(result: ToolResult) -> str:
    """Return the rule that a refusal names."""
    assert result.error is not None
    return result.error.get("rule", "")


@pytest.mark.attack("F1")
@pytest.mark.parametrize("target", ["{secret}", "..", "../secret.txt", "/etc"])
async def test_a_link_to_the_outside_is_never_searched(
    mounted: Any, work: Path, secret: Path, target: str
) -> None:
    (work / "link").symlink_to(target.format(secret=secret))

    for tool, pattern in (("grep", "needle|root"), ("glob", "*")):
        result = await mounted.call(tool, pattern=pattern)
        assert "secret" not in result.output
        assert "passwd" not in result.output
        assert "[left out: 1 links]" in result.output
        assert rule(await mounted.call(tool, pattern=pattern, path="link")) == "outside"


@pytest.mark.attack("F2")
@pytest.mark.parametrize(
    "path",
    ["..", "../secret.txt", "./a/../../secret.txt", "{secret}", "{work}-evil", "/", "//etc"]
    + ["a\0b", "\udc80", "{work}/../secret.txt"],
)
async def test_a_path_that_leads_out_is_refused(
    mounted: Any, work: Path, secret: Path, path: str
) -> None:
    named = path.format(secret=secret, work=work)
    for tool in ("grep", "glob"):
        result = await mounted.call(tool, pattern="needle", path=named)
        assert not result.success
        assert rule(result) in ("outside", "name") or "path: Input should be" in str(result.error)


@pytest.mark.attack("F3")
async def test_no_line_leaks_while_folder_and_link_are_swapped(
    mounted: Any, work: Path, secret: Path, write: Write
) -> None:
    outside = secret.parent / "outside"
    outside.mkdir()
    (outside / "x").write_text("needle secret\n", encoding="utf-8")
    write("place/x", "needle\n")
    (work / "trap").symlink_to(outside)
    swapping = threading.Event()

    def swap() -> None:
        while not swapping.is_set():
            for old, new in (("place", "p"), ("trap", "place"), ("place", "trap"), ("p", "place")):
                (work / old).rename(work / new)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen = [(await mounted.call("grep", pattern="needle")).output for _ in range(60)]
    finally:
        swapping.set()
        thread.join()

    assert any(":1:needle" in output for output in seen)
    assert not any("secret" in output for output in seen)


@pytest.mark.attack("F4")
async def test_pipes_devices_and_huge_files_do_not_hold_the_search(
    mounted: Any, work: Path, write: Write
) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no pipes that are files")
    write("seen")
    os.mkfifo(work / "pipe")
    with (work / "sparse").open("wb") as file:
        file.truncate(10 << 30)
    started = time.monotonic()

    output = (await mounted.call("grep", pattern="needle")).output

    assert "seen:1:needle" in output
    assert "1 pipes, sockets or devices" in output
    assert "1 above 10,000,000 bytes" in output
    assert time.monotonic() - started < 2
    assert "1 unreadable" in (await mounted.call("grep", pattern="needle", path="pipe")).output
    assert time.monotonic() - started < 4


@pytest.mark.parametrize("program", ["ripgrep"], indirect=True)
async def test_a_hostile_pattern_is_no_matter_for_ripgrep(
    program: str, start: Start, write: Write
) -> None:
    write("x", "a" * 5_000 + "!\n")

    assert await (await start()).lines("grep", pattern=HOSTILE) == []


@pytest.mark.parametrize("program", ["python"], indirect=True)
async def test_a_hostile_pattern_is_stopped_said_and_leaves_nothing(
    program: str, start: Start, write: Write
) -> None:
    mounted = await start(timeout_seconds=0.5)
    write("a", "aa\n")
    write("b", "a" * 5_000 + "!\n")
    started = time.monotonic()

    output = (await mounted.call("grep", pattern=HOSTILE)).output

    assert time.monotonic() - started < 3
    assert output.startswith("[grep was stopped after 0.5 seconds;")
    assert [event for event, _ in mounted.recorder.events] == [
        "search:degraded",
        "search:incomplete",
    ]
    assert "stopped after 0.5 seconds" in mounted.screen.lines[-1]
    await until(lambda: not any("matcher.py" in each for each in children()))


@pytest.mark.parametrize("program", ["python"], indirect=True)
async def test_a_cancelled_search_ends_its_program(
    program: str, start: Start, write: Write
) -> None:
    mounted = await start()
    write("b", "a" * 5_000 + "!\n")
    task = asyncio.create_task(mounted.call("grep", pattern=HOSTILE))
    await until(lambda: any("matcher.py" in each for each in children()))

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(120):
            await task

    assert not any("matcher.py" in each for each in children())


async def test_hostile_globs_and_ignore_files_take_no_time(mounted: Any, write: Write) -> None:
    name = "a" * 200
    write(f"{name}/{name}")
    write(".gitignore", ("*a" * 100 + "b\n") + "**/" * 500 + "b\n" + "{a,b}" * 50 + "\n")
    started = time.monotonic()

    assert await mounted.lines("glob", pattern="*a" * 100 + "b") == []
    assert await mounted.lines("glob", pattern="**/a*/" * 100 + "b") == []
    assert not PathPattern("**/a/" * 50 + "b").matches(["a"] * 2_000)
    assert time.monotonic() - started < 2


async def test_a_folder_of_the_path_that_may_not_be_entered_is_left_out(
    start: Start, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For root, who may enter any folder, a name that is too long is refused in the same way."""
    write("x")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    monkeypatch.setenv("PATH", f"{closed}{os.pathsep}/{'n' * 300}")

    mounted = await start()

    assert await mounted.lines("grep", pattern="needle", path="x") == ["x:1:needle"]
    closed.chmod(0o700)


@pytest.mark.attack("S9")
@pytest.mark.parametrize("planted", ["{work}/bin", ".", ""])
async def test_a_ripgrep_planted_in_the_workspace_is_not_run(
    start: Start, work: Path, write: Write, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    program = write("bin/rg", f"#!{sys.executable}\nopen('{work}/ran', 'w')\n")
    program.chmod(0o755)
    monkeypatch.chdir(program.parent)
    monkeypatch.setenv("PATH", planted.format(work=work))
    write("x")

    mounted = await start()

    assert await mounted.lines("grep", pattern="needle", path="x") == ["x:1:needle"]
    assert not (work / "ran").exists()
    assert mounted.screen.lines == [
        "tool-search warning: ripgrep (`rg`) is not installed: grep is slower, "
        "and its patterns are Python's."
    ]


@pytest.mark.attack("C2")
@pytest.mark.parametrize("program", ["ripgrep"], indirect=True)
async def test_no_configuration_of_ripgrep_is_read(
    program: str, start: Start, work: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "RIPGREP_CONFIG_PATH", str(write("rc", f"--pre={work}/pre\n--invert-match\n"))
    )
    write("pre", f"#!/bin/sh\ntouch {work}/ran\n").chmod(0o755)
    write("x", "needle\nother\n")

    assert await (await start()).lines("grep", pattern="needle", path="x") == ["x:1:needle"]
    assert not (work / "ran").exists()
