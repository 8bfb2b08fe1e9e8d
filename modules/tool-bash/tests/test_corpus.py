"""Every re-spelling of a forbidden command, really executed, changes nothing outside."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CORPUS: dict[str, str] = json.loads(
    (Path(__file__).parent / "data" / "shell_evasions.json").read_text("utf-8")
)["commands"]

# What the corpus aims at, on the machine that runs the tests.
TARGETS = ("/etc/passwd", "/etc/shadow", "/bin/true", "~/.bashrc", "~/.ssh")


def state_of(path: Path) -> str:
    """Return what identifies a file or a folder's direct content."""
    if path.is_dir():
        return repr(sorted(child.name for child in path.iterdir()))
    if not path.exists():
        return "absent"
    found = path.stat()
    content = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{found.st_mode} {found.st_uid} {found.st_mtime_ns} {content}"


def state_of_machine(around: Path, workspace: Path) -> dict[str, str]:
    watched = [*(Path(target).expanduser() for target in TARGETS), around, Path("/")]
    watched += [around / "outside", around / "outside" / "witness", *_all_in(workspace / ".git")]
    return {str(path): state_of(path) for path in watched}


def _all_in(folder: Path) -> list[Path]:
    return [folder, *folder.rglob("*")]


@pytest.mark.attack("S1")
@pytest.mark.parametrize("name", CORPUS)
async def test_nothing_outside_the_workspace_changes(
    name: str, mounted: Any, workspace: Path, processes_of: Callable[[], list[str]]
) -> None:
    tool = await mounted(timeout_seconds=1, processes=64)
    before = state_of_machine(workspace.parent, workspace)

    result = await tool.execute({"command": CORPUS[name]})

    assert state_of_machine(workspace.parent, workspace) == before
    assert processes_of() == []
    assert os.environ["ANTHROPIC_API_KEY"] not in json.dumps(result.output)


@pytest.mark.attack("S2")
@pytest.mark.parametrize("name", CORPUS)
async def test_a_rule_for_something_harmless_does_not_let_it_pass(
    name: str, mounted: Any, coordinator: Any
) -> None:
    harmless = ["ls *", "git status", "echo *", "cat *", "true", "id"]
    await mounted(allow=harmless)
    # The two that only read inside the sandbox are what `cat *` says.
    expected = "continue" if name == "secrets read" else "ask_user"

    answer = await coordinator.hooks.emit(
        "tool:pre", {"tool_name": "bash", "tool_input": {"command": CORPUS[name]}}
    )

    assert answer.action == expected
