"""`amplifier run --events`: stdout is what the run appends to the log, byte by byte."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "win32":
    import pty

# Each starts the command, some of them twice.
pytestmark = pytest.mark.slow

Start = Callable[..., "subprocess.Popen[bytes]"]
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]

WRITING = {"name": "write_file", "arguments": {"file_path": "x.md", "content": "x"}}


def scripted(home: Path, script: list[Any], **config: Any) -> None:
    home.mkdir(exist_ok=True)
    entry = {"module": "provider-mock", "config": {"script": script, "stream": True, **config}}
    (home / "settings.yaml").write_text(json.dumps({"providers": [entry]}), encoding="utf-8")


def logs(home: Path) -> list[Path]:
    return sorted(home.rglob("log.jsonl"), key=lambda each: each.stat().st_mtime_ns)


def lines_of(log: Path) -> list[bytes]:
    """The records of a log as it has them; a lease is a note of the store and not a record."""
    lines = log.read_bytes().splitlines(keepends=True)
    return [each for each in lines if json.loads(each)["kind"] != "lease"]


def kinds(lines: list[bytes]) -> list[str]:
    return [json.loads(each)["kind"] for each in lines]


@pytest.fixture
def start(environment: dict[str, str], project: Path) -> Start:
    def started(*arguments: str, stdout: Any = subprocess.PIPE) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "amplifier_cli", "run", "--events", *arguments],
            env=environment,
            cwd=project,
            # `communicate` does not return what a buffer has read ahead.
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )

    return started


@pytest.fixture
def run(start: Start) -> Run:
    def ran(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        process = start(*arguments)
        out, told = process.communicate(timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, out, told)

    return ran


def test_stdout_is_the_log_of_the_run(run: Run, home: Path) -> None:
    scripted(home, [{"text": "I écris.", "tool_calls": [WRITING]}, "Done.\u202e\x9b"])

    done = run("--mode", "edits", "write it")

    (log,) = logs(home)
    lines = lines_of(log)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"".join(lines)
    assert kinds(lines)[0] == "session.opened"
    assert json.loads(lines[0])["data"]["session_id"] == log.parent.name
    assert {"prompt", "tool.call", "tool.result", "turn.ended"} <= set(kinds(lines))
    assert [json.loads(each)["seq"] for each in lines] == list(range(1, len(lines) + 1))


def test_a_continued_session_prints_only_the_records_of_this_run(run: Run, home: Path) -> None:
    scripted(home, ["One.", "Two."])
    first = run("one").stdout

    second = run("--resume", "last", "two").stdout

    (log,) = logs(home)
    assert first + second == b"".join(lines_of(log))
    prompts = [json.loads(each)["data"] for each in second.splitlines()]
    assert [each["text"] for each in prompts if "text" in each and "opening" in each] == ["two"]


def test_a_record_is_there_when_it_is_written_and_an_interrupt_ends_the_list(
    start: Start, home: Path
) -> None:
    scripted(home, [{"text": "never", "delay_seconds": 60}])
    process = start("wait for me")
    assert process.stdout is not None
    seen = [next(process.stdout)]
    while json.loads(seen[-1])["kind"] != "model.call":
        seen.append(next(process.stdout))

    process.send_signal(signal.SIGINT)
    rest, told = process.communicate(timeout=120)

    assert process.returncode == 130, told
    assert b"Traceback" not in told
    assert b"".join(seen) + rest == b"".join(lines_of(logs(home)[0]))
    assert b'"turn.ended"' in rest


@pytest.mark.parametrize("flags", [("--mode", "plan"), ("--deny", "write_file"), ()])
def test_a_denial_is_listed_as_without_it(run: Run, home: Path, flags: tuple[str, ...]) -> None:
    scripted(home, [{"tool_calls": [WRITING]}, "I may not."])

    done = run(*flags, "write it")

    assert done.returncode == 3
    assert done.stdout == b"".join(lines_of(logs(home)[0]))
    assert b"approval:denied" in done.stdout
    assert done.stderr.splitlines()[-3].startswith(b"error  1 call was denied: write_file")


def test_allowed_calls_run(run: Run, home: Path, project: Path) -> None:
    scripted(home, [{"tool_calls": [WRITING]}, "Done."])

    assert run("--allow", "write_file", "write it").returncode == 0
    assert (project / "x.md").exists()


def test_a_secret_is_removed_as_in_the_log(run: Run, home: Path) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20
    scripted(home, [f"It is {secret}."])

    done = run(f"keep {secret}")

    assert done.returncode == 0
    assert secret.encode() not in done.stdout
    assert done.stdout == b"".join(lines_of(logs(home)[0]))


def test_a_reader_that_leaves_does_not_end_the_turn(start: Start, home: Path) -> None:
    scripted(home, [{"tool_calls": [{"name": "list_directory", "arguments": {}}]}, "Done."])
    process = start("look")
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(next(process.stdout))["kind"] == "session.opened"
    process.stdout.close()
    with process.stderr as messages:
        told = messages.read()

    assert process.wait(timeout=120) == 1
    assert b"Traceback" not in told
    assert b"BrokenPipe" not in told
    assert "turn.ended" in kinds(lines_of(logs(home)[0]))


def test_a_full_disk_is_reported_and_the_turn_is_complete(start: Start, home: Path) -> None:
    scripted(home, ["Done."])
    with Path("/dev/full").open("wb") as full:
        process = start("-q", "hello", stdout=full)
        _, told = process.communicate(timeout=120)

    (log,) = logs(home)
    assert process.returncode == 1
    assert told.decode().splitlines() == [
        "error  Not all records were written to stdout. The turn is complete.",
        "why    No space left on device.",
        f"next   amplifier session show {log.parent.name[:8]} --json",
    ]
    assert "turn.ended" in kinds(lines_of(log))


def test_a_sub_agent_has_a_log_of_its_own(run: Run, home: Path) -> None:
    agent = {"name": "task", "arguments": {"prompt": "look"}}
    scripted(home, [{"tool_calls": [agent]}, "Looked.", "Done."])

    done = run("--allow", "task", "have somebody look")

    assert done.returncode == 0, done.stderr
    opened = {each: json.loads(lines_of(each)[0])["data"] for each in logs(home)}
    (parent,) = (each for each in opened if opened[each]["parent_id"] is None)
    assert done.stdout == b"".join(lines_of(parent))
    records = [json.loads(each) for each in done.stdout.splitlines()]
    children = [each["data"]["session_id"] for each in records if each["kind"] == "child"]
    assert children
    assert set(children) < {each.parent.name for each in opened}


def test_a_session_that_does_not_open_prints_why_as_its_log_does(run: Run, home: Path) -> None:
    home.mkdir()
    settings = {"providers": [{"module": "provider-anthropic"}]}
    (home / "settings.yaml").write_text(json.dumps(settings), encoding="utf-8")

    done = run("hello")

    assert done.returncode == 5
    assert done.stdout == b"".join(lines_of(logs(home)[0]))
    assert "error" in json.loads(done.stdout.splitlines()[0])["data"]


def test_a_terminal_gets_no_control_characters(start: Start, home: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("Python opens no terminals on Windows")
    scripted(home, ["Done.\u202e\x9b31m"])
    mine, theirs = pty.openpty()
    process = start("-q", "hello", stdout=theirs)
    os.close(theirs)
    shown = b""
    # Reading a terminal that nobody writes to any more fails.
    try:
        while piece := os.read(mine, 65_536):
            shown += piece
    except OSError:
        pass
    os.close(mine)
    process.communicate(timeout=120)

    text = shown.decode()
    assert process.returncode == 0
    assert "\x9b" not in text
    assert "\u202e" not in text
    found = [json.loads(each) for each in text.splitlines()]
    assert found == [json.loads(each) for each in lines_of(logs(home)[0])]


@pytest.mark.parametrize(
    ("option", "fix"),
    [
        ("--json", 'amplifier run --events "what is in this folder?"'),
        ("--watch", "the same command with --take-over or --fork"),
    ],
)
def test_options_that_make_no_sense_with_it_are_refused(
    run: Run, home: Path, option: str, fix: str
) -> None:
    done = run(option, "hello")

    what, why, following = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout) == (2, b"")
    assert what == f"error  `--events` cannot be used with `{option}`."
    assert why.startswith("why    ")
    assert following == f"next   {fix}"
    assert not logs(home)
