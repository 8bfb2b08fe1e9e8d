"""Folders that somebody cloned, made so that no command comes to its end in them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attacks.machine import Machine

# Far more than any of these takes, and far less than the attacks take when they succeed.
SECONDS = 60
Fill = Callable[[Path], None]


@pytest.fixture(autouse=True)
def emptied(machine: Machine) -> Iterator[None]:
    """Remove the project afterwards: what pytest itself does would end in a RecursionError."""
    yield
    subprocess.run(["chmod", "-R", "u+rwX", str(machine.project)], check=True, timeout=SECONDS)
    subprocess.run(["rm", "-rf", str(machine.project)], check=True, timeout=SECONDS)


def write(folder: Path, name: str, text: str) -> None:
    """Write a file in `.amplifier`."""
    path = folder / ".amplifier" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _mentions(folder: Path) -> None:
    write(folder, "x.md", " ".join(f"@a{number}" for number in range(110_000)))


def _mentions_of_what_is_there(folder: Path) -> None:
    write(folder, "x.md", " ".join(f"@.amplifier/{number}" for number in range(60_000)))


def _words_deep_below(folder: Path) -> None:
    lines = (f"k{each}: " + " ".join(f"w{word}" for word in range(200)) for each in range(900))
    write(folder, "d/" * 40 + "x.yaml", "\n".join(lines))


def _folders(folder: Path) -> None:
    (folder / ".amplifier").mkdir()
    descriptor = os.open(folder / ".amplifier", os.O_RDONLY)
    for _ in range(1_400):
        os.mkdir("a", dir_fd=descriptor)
        below = os.open("a", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)


def _brackets(folder: Path) -> None:
    write(folder, "settings.yaml", "[" * 100_000 + "]" * 100_000)


def _brackets_in_json(folder: Path) -> None:
    (folder / ".mcp.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000, encoding="utf-8")


def _merges(folder: Path) -> None:
    lines = ["a0: &a0 {k: 1}"]
    for number in range(12):
        aliases = ", ".join([f"*a{number}"] * 9)
        lines.append(f"a{number + 1}: &a{number + 1} {{<<: [{aliases}]}}")
    write(folder, "settings.yaml", "\n".join(lines))


def _number(folder: Path) -> None:
    write(folder, "settings.yaml", "a: 1:" + "1:" * 450_000 + "1")


def _texts(folder: Path) -> None:
    text = "\n".join(f"k{number}: [v, w]" for number in range(12_000))
    for number in range(80):
        write(folder, f"many/{number}.yaml", text)


def _files(folder: Path) -> None:
    for number in range(6_000):
        write(folder, f"many/{number}", "")


def _sparse_file(folder: Path) -> None:
    write(folder, "settings.yaml", "a: 1\n")
    os.truncate(folder / ".amplifier" / "settings.yaml", 50_000_000_000)
    (folder / "AGENTS.md").write_text("x", encoding="utf-8")


def _pipes_and_loops(folder: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no pipes that are files")
    (folder / ".amplifier").mkdir()
    os.mkfifo(folder / ".amplifier" / "settings.yaml")
    os.mkfifo(folder / "AGENTS.md")
    (folder / ".amplifier" / "loop.yaml").symlink_to("loop.yaml")
    (folder / ".amplifier" / "again").symlink_to(".")


def _closed(folder: Path) -> None:
    """Close everything to its owner; root can still read it."""
    write(folder, "settings.yaml", "a: 1\n")
    (folder / "AGENTS.md").write_text("x", encoding="utf-8")
    (folder / "AGENTS.md").chmod(0)
    (folder / ".amplifier").chmod(0)


QUICK: dict[str, Fill] = {"mentions": _mentions, "folders": _folders, "brackets": _brackets}
SLOW: dict[str, Fill] = {
    "mentions of what is there": _mentions_of_what_is_there,
    "words deep below": _words_deep_below,
    "brackets in JSON": _brackets_in_json,
    "merges": _merges,
    "number": _number,
    "texts": _texts,
}
# Held before, and has to stay so.
HELD: dict[str, Fill] = {
    "files": _files,
    "sparse file": _sparse_file,
    "pipes and loops": _pipes_and_loops,
    "closed": _closed,
}


def assert_the_command_works(machine: Machine, fill: Fill) -> None:
    """Assert that a folder is filled in vain: a session runs in it, without anything of it."""
    fill(machine.project)

    done = machine.amplifier("run", "hello", timeout=SECONDS)

    assert done.returncode == 0, done.stderr[-2_000:]
    assert "Traceback" not in done.stderr
    assert "this folder is not trusted." in done.stderr


def assert_the_others_work(machine: Machine, fill: Fill) -> None:
    """Assert the same for other commands; `trust` may say that it is too much to decide about."""
    fill(machine.project)
    for command in (
        ("--version",),
        ("--help",),
        ("session", "list"),
        ("doctor",),
        ("tool", "list"),
    ):
        done = machine.amplifier(*command, timeout=SECONDS)
        assert done.returncode == 0, (command, done.stderr[-2_000:])
        assert "Traceback" not in done.stderr
    for command in (("trust", "show"), ("trust", "grant", "--yes")):
        done = machine.amplifier(*command, timeout=SECONDS)
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 3), (command, done.stderr[-2_000:])


@pytest.mark.attack("review M10")
@pytest.mark.parametrize("kind", QUICK)
def test_a_folder_does_not_stop_a_session(machine: Machine, kind: str) -> None:
    assert_the_command_works(machine, QUICK[kind])


@pytest.mark.slow
@pytest.mark.attack("review M10")
@pytest.mark.parametrize("kind", [*SLOW, *HELD])
def test_a_folder_that_is_costly_to_read_does_not_stop_a_session(
    machine: Machine, kind: str
) -> None:
    assert_the_command_works(machine, (SLOW | HELD)[kind])


@pytest.mark.slow
@pytest.mark.attack("review M10")
@pytest.mark.parametrize("kind", [*QUICK, *SLOW, *HELD])
def test_a_folder_does_not_stop_the_other_commands(machine: Machine, kind: str) -> None:
    assert_the_others_work(machine, (QUICK | SLOW | HELD)[kind])
