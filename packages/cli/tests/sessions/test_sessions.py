"""`amplifier session`: everything that a session can be asked afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

# Each starts the command, some of them often.
pytestmark = pytest.mark.slow

Command = Callable[..., "subprocess.CompletedProcess[str]"]

KEY = "sk-" + "ant-api03-" + "Q7xK2mVz9LpR4tWy8NbC3dFg6HjS1aEuXo5iTkMn"


def scripted(home: Path, script: list[Any]) -> None:
    """Have the mock provider play a script."""
    home.mkdir(exist_ok=True)
    entry = {"module": "provider-mock", "config": {"script": script}}
    (home / "settings.yaml").write_text(json.dumps({"providers": [entry]}), encoding="utf-8")


@pytest.fixture
def session(amplifier: Command, home: Path, project: Path) -> str:
    """A session of two turns, with a tool in the first."""
    (project / "a.txt").write_text("inside", encoding="utf-8")
    call = {"name": "read_file", "arguments": {"file_path": "a.txt"}}
    scripted(home, [{"tool_calls": [call]}, "It says: inside."])
    told = json.loads(amplifier("run", "--json", "read a.txt").stdout)
    scripted(home, ["You are welcome."])
    amplifier("run", "--resume", "last", "thank you")
    return told["session_id"]


def test_sessions_are_listed_for_this_folder_and_for_all(
    amplifier: Command, session: str, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    assert session[:8] in amplifier("session", "list").stdout
    assert session[:8] not in amplifier("session", "list", cwd=elsewhere).stdout
    (listed,) = json.loads(amplifier("session", "list", "--all", "--json", cwd=elsewhere).stdout)
    assert (listed["title"], listed["turns"]) == ("read a.txt", 2)


@pytest.mark.parametrize(
    "command",
    [
        ("session", "delete", "last", "--yes"),
        ("session", "fork", "last"),
        ("session", "show"),
        ("run", "--resume", "last", "go"),
    ],
)
def test_last_never_means_a_session_of_another_folder(
    amplifier: Command, session: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    done = amplifier(*command, cwd=elsewhere)
    *_, fix = done.stderr.splitlines()

    assert done.returncode != 0
    assert "There is no session in this folder." in done.stderr
    assert session[:8] in amplifier(*fix.split()[2:], cwd=elsewhere).stdout


def test_a_session_whose_process_was_killed_is_interrupted(
    amplifier: Command, home: Path, project: Path, environment: dict[str, str]
) -> None:
    def status() -> str | None:
        listed = json.loads(amplifier("session", "list", "--json").stdout)
        return listed[0]["status"] if listed else None

    scripted(home, [{"text": "Late.", "delay_seconds": 600}])
    command = [sys.executable, "-m", "amplifier_cli", "run", "wait"]
    with subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while status() != "running":
            assert process.poll() is None
        process.kill()

    assert status() == "interrupted"
    assert "interrupted, 0 turns" in amplifier("session", "show", "last").stdout


def test_a_list_that_is_cut_says_how_many_more_there_are(amplifier: Command, session: str) -> None:
    amplifier("session", "fork", session)

    assert amplifier("session", "list").stderr == ""
    cut = amplifier("session", "list", "--limit", "1")
    assert len(cut.stdout.splitlines()) == 2
    assert "1 more: amplifier session list --limit 2" in cut.stderr


def test_a_session_is_shown_by_the_beginning_of_its_id(amplifier: Command, session: str) -> None:
    shown = amplifier("session", "show", session[:6]).stdout

    for text in ("read a.txt", "✓ read_file", "It says: inside.", "You are welcome.", "2 turns"):
        assert text in shown


def test_a_session_that_was_refused_is_listed_as_failed_and_is_not_the_last(
    amplifier: Command, session: str, home: Path
) -> None:
    guard: dict[str, Any] = {"module": "hooks-taint", "config": {"trusted_tolls": []}}
    misspelt = {"bundle": {"name": "own"}, "includes": ["default"], "hooks": [guard]}
    (home / "bundles").mkdir()
    (home / "bundles" / "own.yaml").write_text(json.dumps(misspelt), encoding="utf-8")

    run = amplifier("run", "-b", "own", "hello")

    assert run.returncode == 3, run.stderr
    newest, before = json.loads(amplifier("session", "list", "--json").stdout)
    assert (newest["status"], newest["turns"]) == ("failed", 0)
    assert (before["session_id"], before["status"]) == (session, "completed")
    assert session in amplifier("session", "show", "last").stdout
    assert "turn 2" in amplifier("explain", "last").stdout
    assert amplifier("session", "replay", "last").returncode == 0
    short = newest["session_id"][:8]
    assert "failed, 0 turns" in amplifier("session", "show", short).stdout
    assert "trusted_tolls" in amplifier("session", "show", short, "--json").stdout


def test_what_a_model_wrote_cannot_command_the_terminal(amplifier: Command, home: Path) -> None:
    scripted(home, ["red \x1b[31malert\x1b]0;title\x07"])
    amplifier("run", "say \x1b[2J something")

    for command in (("session", "show"), ("session", "list"), ("explain", "--full"), ("trace",)):
        assert "\x1b" not in amplifier(*command).stdout, command


def test_an_unknown_session_is_an_error_with_the_way_to_find_one(amplifier: Command) -> None:
    done = amplifier("session", "show", "nonsense")

    assert done.returncode == 1
    assert "next   amplifier session list" in done.stderr


def test_a_fork_has_what_came_before(amplifier: Command, session: str) -> None:
    copy = amplifier("session", "fork", session, "--before-turn", "2").stdout.strip()

    shown = amplifier("session", "show", copy).stdout
    assert "It says: inside." in shown
    assert "thank you" not in shown
    assert amplifier("session", "diff", session, copy).returncode == 1
    assert amplifier("session", "diff", session, session).returncode == 0


def test_a_session_replays_offline_and_becomes_a_test(
    amplifier: Command, session: str, project: Path
) -> None:
    replayed = amplifier("session", "replay", session)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    made = amplifier("session", "to-test", session, "-o", "tests/test_reading.py")
    assert made.returncode == 0, made.stderr

    passed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert passed.returncode == 0, passed.stdout


def test_a_rewind_shows_first_and_then_takes_back(
    amplifier: Command, home: Path, project: Path
) -> None:
    call = {"name": "write_file", "arguments": {"file_path": "b.txt", "content": "new"}}
    scripted(home, ["Hello.", {"tool_calls": [call]}, "Written."])
    settings = json.loads((home / "settings.yaml").read_text("utf-8"))
    rule = {"tool": "write_file", "action": "allow"}
    settings["modules"] = {"hooks": [{"module": "hooks-approval", "config": {"rules": [rule]}}]}
    (home / "settings.yaml").write_text(json.dumps(settings), encoding="utf-8")
    amplifier("run", "hello")
    settings["providers"][0]["config"]["script"] = [{"tool_calls": [call]}, "Written."]
    (home / "settings.yaml").write_text(json.dumps(settings), encoding="utf-8")
    amplifier("run", "--resume", "last", "write b")
    assert (project / "b.txt").exists()

    preview = amplifier("session", "rewind", "--before-turn", "2", "--preview")
    assert "b.txt" in preview.stdout
    assert (project / "b.txt").exists()
    assert amplifier("session", "rewind", "--before-turn", "2").returncode == 2
    done = amplifier("session", "rewind", "--before-turn", "2", "--yes")
    assert done.returncode == 0, done.stderr
    assert not (project / "b.txt").exists()


def test_the_last_request_is_explained(amplifier: Command, session: str) -> None:
    told = amplifier("explain", "last").stdout

    assert "bundle:default/bundle.md" in told
    assert "the user, in turn 2" in told
    assert "result of `read_file` in turn 1" in told
    assert "ended" in told
    whole = json.loads(amplifier("explain", "last", "--json").stdout)
    assert whole["stop_reason"] == "completed"


def test_time_tokens_and_money_are_shown_by_module(amplifier: Command, session: str) -> None:
    shares = json.loads(amplifier("top", "--json").stdout)

    assert {"provider-mock", "tool-filesystem", "loop"} <= {each["module"] for each in shares}
    assert "tool-filesystem" in amplifier("top").stdout


def test_a_trace_is_drawn_and_its_picture_can_be_read(
    amplifier: Command, session: str, project: Path
) -> None:
    assert "read_file" in amplifier("trace").stdout
    amplifier("trace", session, "--svg", "trace.svg")

    picture = ElementTree.parse(project / "trace.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert len(picture.findall(f".//{space}rect")) == 6
    style = picture.findtext(f"{space}style") or ""
    assert "prefers-color-scheme:dark" in style


def test_an_export_is_markdown_or_json(amplifier: Command, session: str, project: Path) -> None:
    assert "### Answer" in amplifier("session", "export").stdout
    amplifier("session", "export", "--as", "json", "-o", "whole.json")

    whole = json.loads((project / "whole.json").read_text("utf-8"))
    assert whole["metadata"]["session_id"] == session
    assert whole["records"][0]["kind"] == "session.opened"


def test_a_deleted_session_is_gone_and_needs_a_yes(amplifier: Command, session: str) -> None:
    assert amplifier("session", "delete", session).returncode == 2
    assert amplifier("session", "delete", session, "--yes").returncode == 0
    assert amplifier("session", "show", session).returncode == 1


def test_a_secret_is_taken_out_of_everything_on_the_disk(
    amplifier: Command, session: str, home: Path
) -> None:
    """The secret looks like none: only who knows it can find it."""
    secret = "correct-horse-battery-staple-77"
    scripted(home, ["Noted."])
    amplifier("run", "--resume", "last", f"remember {secret}")
    assert _holding(home, secret)

    assert amplifier("session", "scrub", session, "--check").returncode == 0
    found = amplifier("session", "scrub", session, "--check", "--stdin", stdin=secret)
    assert found.returncode == 1
    done = amplifier("session", "scrub", session, "--yes", "--stdin", stdin=secret)

    assert done.returncode == 0, done.stderr
    assert _holding(home, secret) == []
    shown = amplifier("session", "show", session).stdout
    assert "thank you" in shown
    assert "remember [REDACTED" in shown
    assert amplifier("session", "replay", session).returncode == 0
    scripted(home, ["Still here."])
    assert amplifier("run", "--resume", session, "go on").stdout == "Still here.\n"


def test_the_doctor_finds_a_broken_list_of_sessions_and_makes_it_anew(
    amplifier: Command, session: str, home: Path
) -> None:
    assert _doctor(amplifier)["index"]["level"] == "ok"
    (home / "index.sqlite").write_bytes(b"this is no table" * 100)

    ill = _doctor(amplifier)["index"]
    assert (ill["level"], ill["fix"]) == ("warning", "amplifier doctor --fix")
    (home / "index.sqlite").write_bytes(b"this is no table" * 100)
    assert "rebuilt: 1" in _doctor(amplifier, "--fix")["fixed"]["told"]
    assert _doctor(amplifier)["index"]["level"] == "ok"
    assert session[:8] in amplifier("session", "list").stdout


def test_the_doctor_ignores_folders_of_others_and_leaves_them(
    amplifier: Command, home: Path
) -> None:
    amplifier("run", "hello")
    (sessions,) = (home / "projects").glob("*/sessions")
    theirs = sessions / "theirs" / "events.jsonl"
    theirs.parent.mkdir()
    theirs.write_text("{}\n", encoding="utf-8")

    for arguments in ((), ("--fix",), ()):
        found = _doctor(amplifier, *arguments)
        assert found["index"]["level"] == "ok"
        assert found["sessions"]["told"].startswith("1 in the index;")
    assert theirs.exists()


def _doctor(amplifier: Command, *arguments: str) -> dict[str, dict[str, str]]:
    told = json.loads(amplifier("doctor", "--json", *arguments).stdout)
    return {each["what"]: each for each in told}


def _holding(home: Path, text: str) -> list[str]:
    files = [path for path in home.rglob("*") if path.is_file()]
    return [path.name for path in files if text.encode() in path.read_bytes()]


def test_a_session_that_another_process_has_is_offered_in_three_ways(
    amplifier: Command, session: str, environment: dict[str, str], home: Path, project: Path
) -> None:
    scripted(home, ["Still here."])
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDING, session],
        env=environment,
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"

    refused = amplifier("run", "--resume", session, "hello")
    forked = amplifier("run", "--resume", session, "--fork", "hello")
    taken = amplifier("run", "--resume", session, "--take-over", "hello")
    holder.stdin.write("write\n")
    holder.stdin.flush()
    lost = holder.stdout.readline()
    holder.communicate(timeout=120)

    assert refused.returncode == 2
    assert "--watch, --take-over or --fork" in refused.stderr
    assert str(holder.pid) in refused.stderr
    assert (forked.returncode, taken.returncode) == (0, 0), forked.stderr + taken.stderr
    assert lost == "LeaseLostError\n"
    assert session[:8] in json.dumps(json.loads(amplifier("session", "list", "--json").stdout))


_HOLDING = """
import sys
from amplifier_foundation import paths
from amplifier_foundation.store import SessionStore

writer = SessionStore(paths.home()).open(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
try:
    writer.append("prompt", {"text": "too late", "turn": 9})
    print("written", flush=True)
except Exception as error:
    print(type(error).__name__, flush=True)
"""


def test_old_sessions_are_listed_then_deleted(amplifier: Command) -> None:
    for prompt in ("one", "two", "three"):
        amplifier("run", prompt)

    rules = ("--older-than", "0", "--keep", "1")
    listed = amplifier("session", "prune", *rules, "--dry-run")
    assert len(listed.stdout.splitlines()) == 2
    refused = amplifier("session", "prune", *rules)
    again = "amplifier session prune --older-than 0 --keep 1 --yes"
    assert (refused.returncode, f"next   {again}" in refused.stderr) == (2, True)
    assert "2 sessions deleted" in amplifier(*again.split()[1:]).stderr
    left = json.loads(amplifier("session", "list", "--json").stdout)
    assert [each["title"] for each in left] == ["three"]
    assert "There is nothing to delete." in amplifier(*again.split()[1:]).stderr


def test_there_is_nothing_to_migrate(amplifier: Command) -> None:
    amplifier("run", "one")

    done = amplifier("session", "migrate", "--dry-run")

    assert (done.returncode, done.stderr) == (0, "There is no session of an older format.\n")
