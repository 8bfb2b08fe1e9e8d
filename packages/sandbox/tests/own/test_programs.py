"""A program that this process starts is not one of the workspace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amplifier_sandbox.own.programs import find_program, search_folders


def planted(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n", "utf-8")
    (folder / name).chmod(0o755)
    return folder / name


@pytest.mark.attack("review H6")
def test_a_program_of_the_workspace_or_of_a_relative_folder_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, tools = tmp_path / "work", tmp_path / "tools"
    planted(work / ".venv" / "bin", "tool")
    planted(work / "bin", "tool")
    right = planted(tools, "tool")
    linked = tmp_path / "linked"
    linked.symlink_to(work / "bin")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "tool").symlink_to(work / "bin" / "tool")
    path = [work / ".venv" / "bin", ".", "bin", "", linked, hidden, tools]
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, path)))
    monkeypatch.chdir(work)

    assert find_program("tool") == str(right)
    assert find_program("tool", work) == str(right)
    assert search_folders() == [str(hidden), str(tools)]
    assert find_program("tool", work, tools) is None


def test_the_systems_programs_are_found_wherever_one_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir("/")

    assert find_program("env") == "/usr/bin/env"


def test_a_folder_that_cannot_be_looked_into_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    closed = tmp_path / "closed"
    planted(closed, "env")
    closed.chmod(0)
    monkeypatch.setenv("PATH", f"{loop}:{'x' * 5_000}:{closed}:/usr/bin")
    monkeypatch.chdir("/usr")

    try:
        found = find_program("env")
    finally:
        closed.chmod(0o700)

    assert found in ("/usr/bin/env", str(closed / "env")), "only root finds the one that is closed"
