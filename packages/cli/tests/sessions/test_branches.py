"""`amplifier session rewind` of a copy and of files alone, and sessions that a session started."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Each starts the command, some of them often.
pytestmark = pytest.mark.slow

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def scripted(home: Path, script: list[Any]) -> None:
    """Have the mock provider play a script, and let it write files."""
    home.mkdir(exist_ok=True)
    rule = {"tool": "write_file", "action": "allow"}
    settings = {
        "providers": [{"module": "provider-mock", "config": {"script": script}}],
        "modules": {"hooks": [{"module": "hooks-approval", "config": {"rules": [rule]}}]},
    }
    (home / "settings.yaml").write_text(json.dumps(settings), encoding="utf-8")


@pytest.fixture
def session(amplifier: Command, home: Path) -> str:
    """A session of two turns that both wrote a.txt."""
    for number, resume in (("one", ()), ("two", ("--resume", "last"))):
        call = {"name": "write_file", "arguments": {"file_path": "a.txt", "content": number}}
        scripted(home, [{"tool_calls": [call]}, "Written."])
        told = amplifier("run", "--json", *resume, f"write {number}")
        assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)["session_id"]


def test_a_fork_at_a_record_that_is_not_there_is_refused_with_the_last_one(
    amplifier: Command, session: str
) -> None:
    refused = amplifier("session", "fork", session, "--at", "99999")
    (fix,) = (line for line in refused.stderr.splitlines() if line.startswith("next"))

    assert refused.returncode == 1
    assert "has no record 99999" in refused.stderr
    assert amplifier(*fix.split()[2:]).returncode == 0


def test_a_copy_says_who_has_what_its_files_were(
    amplifier: Command, session: str, project: Path
) -> None:
    copy = amplifier("session", "fork", session).stdout.strip()

    refused = amplifier("session", "rewind", copy, "--before-turn", "2", "--yes")

    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert f"Session {session}, of which this is a copy" in refused.stderr
    (fix,) = (line for line in refused.stderr.splitlines() if line.startswith("next"))
    assert amplifier(*fix.split()[2:], "--yes").returncode == 0
    assert (project / "a.txt").read_text("utf-8") == "one"
    alone = ("--what", "conversation", "--yes")
    assert amplifier("session", "rewind", copy, "--before-turn", "2", *alone).returncode == 0


def test_a_rewind_of_files_names_each_once_and_no_prompt(
    amplifier: Command, session: str, project: Path
) -> None:
    files = ("--before-turn", "1", "--what", "files")

    shown = amplifier("session", "rewind", session, *files, "--yes")

    assert shown.returncode == 0, shown.stderr
    assert "Prompts that go" not in shown.stdout
    assert "write one" not in shown.stdout
    assert shown.stdout.count("a.txt") == 1
    assert not (project / "a.txt").exists()


def test_a_session_that_was_started_goes_by_an_id_of_its_own(
    amplifier: Command, home: Path
) -> None:
    task = {"name": "task", "arguments": {"prompt": "A verse.", "agent": "poet"}}
    scripted(home, [{"tool_calls": [task]}, "Done."])
    poet = {"module": "provider-mock", "config": {"script": ["Roses are red."]}}
    agents = {"poet": {"description": "Writes verses.", "providers": [poet]}}
    text = json.dumps({"includes": ["default"], "agents": agents})
    (home / "bundles").mkdir()
    (home / "bundles" / "poets.yaml").write_text(text, encoding="utf-8")
    done = amplifier("run", "--json", "-b", "poets", "have a verse written")
    parent = json.loads(done.stdout)["session_id"]

    listed = json.loads(amplifier("session", "list", "--all", "--children", "--json").stdout)
    (child,) = (each["session_id"] for each in listed if each["session_id"] != parent)
    traced = amplifier("trace", parent).stdout

    assert f"session {child.removeprefix(f'{parent}-')[:8]}" in traced
    assert f"session {parent[:8]}" not in traced
    assert "with 1 session that it started" in amplifier("top", parent).stderr
    assert ", 1 turn," in amplifier("session", "show", parent).stdout


def test_a_rewind_names_what_it_cannot_take_back_and_how_to_do_it_unasked(
    amplifier: Command, home: Path, project: Path
) -> None:
    calls = [
        {"name": "write_file", "arguments": {"file_path": "a.txt", "content": "a"}},
        {"name": "bash", "arguments": {"command": "touch b.txt"}},
    ]
    scripted(home, [{"tool_calls": calls}, "Done."])
    amplifier("run", "--allow", "bash", "write")
    assert (project / "b.txt").exists()

    shown = amplifier("session", "rewind", "last", "--before-turn", "1")

    assert "Not taken back\n  bash touch b.txt\n" in shown.stdout
    (fix,) = (line for line in shown.stderr.splitlines() if line.startswith("next"))
    assert amplifier(*fix.split()[2:]).returncode == 0
    assert [path.name for path in project.iterdir()] == ["b.txt"]
