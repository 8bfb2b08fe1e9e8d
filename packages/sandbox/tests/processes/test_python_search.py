"""Which commands have Python import from the folder that they are started in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amplifier_sandbox.processes.python_search import searches_folder

SEARCHES = [
    "-m theirs",
    "-sm theirs",
    "-W ignore -m theirs",
    "-Bcimport\ttheirs",
    "-X utf8 -mtheirs",
]
SAFE = ["-P -m theirs", "-Im theirs", "-sPm theirs", "-I -c pass", "-W m -P -m theirs", "-V"]


@pytest.mark.parametrize("options", [*SEARCHES, *SAFE])
def test_a_command_searches_its_folder_exactly_when_python_does(
    options: str, tmp_path: Path
) -> None:
    (tmp_path / "theirs.py").write_text("print('it ran')", encoding="utf-8")
    command = [sys.executable, *options.split(" ")]

    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )

    assert searches_folder(command) == ("it ran" in done.stdout)


@pytest.mark.parametrize(
    ("command", "searches"),
    [
        (["sh", "-c", "exec python3 -m theirs"], True),
        (["env", "A=1", "/usr/bin/python3.12", "-m", "theirs"], True),
        (["uv", "run", "python", "-m", "theirs"], True),
        (["python3", "server.py", "-m", "theirs"], False),
        (["npx", "-m", "theirs"], False),
        ([], False),
    ],
)
def test_wrappers_are_looked_through(command: list[str], searches: bool) -> None:
    assert searches_folder(command) is searches
