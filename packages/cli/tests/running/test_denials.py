"""What a run says about calls that were denied and guards that failed."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_cli.kept_log import keeping_log
from amplifier_cli.turn_report import TurnReport, denial_of, guard_failure, listed
from amplifier_core.hooks import HookRegistry

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def no_secrets(text: str) -> str:
    return text.replace("s3cret", "***")


def calls(*tools: str) -> list[dict[str, Any]]:
    facts = {"input": {"path": f"s3cret\n{'x' * 500}"}, "reason": "hooks-x: s3cret"}
    return listed([{"tool": each, **facts} for each in tools], no_secrets)


def test_a_denied_call_is_listed_in_short_and_without_secrets() -> None:
    (call,) = calls("write_file")

    assert call["tool"] == "write_file"
    assert call["input"].startswith('{"path": "***')
    assert len(call["input"]) == 200
    assert call["reason"] == "hooks-x: ***"


@pytest.mark.parametrize(
    ("by", "fix"),
    [
        ({"nobody"}, 'amplifier run --resume id --allow a --allow write:.git "Try again."'),
        ({"boundary"}, 'amplifier run --resume id --allow a --allow write:.git "Try again."'),
        ({"nobody", "concern"}, "amplifier continue id"),
        ({"concern"}, "amplifier continue id"),
        ({"mode"}, 'amplifier run --resume id --mode edits "Carry out the plan."'),
        ({"rule"}, "amplifier explain id"),
        ({"nobody", "other"}, "amplifier explain id"),
        (set[str](), "amplifier explain id"),
    ],
)
def test_the_next_step_fits_who_denied(by: set[str], fix: str) -> None:
    told = denial_of(calls("a", "b", "a"), by, ["a", "write:.git"], "id")

    assert told.fix == fix
    assert told.message.startswith("3 calls were denied: a {")
    assert told.exit_code == 3


@pytest.mark.parametrize("need", ["outside_sandbox", "write:my folder"])
def test_what_no_option_can_allow_is_asked_in_a_chat(need: str) -> None:
    assert denial_of(calls("a"), {"boundary"}, ["a", need], "id").fix == "amplifier continue id"


def test_a_name_in_the_next_step_is_quoted() -> None:
    told = denial_of(calls("a"), {"boundary"}, ["write:/a;b"], "id")

    assert told.fix == "amplifier run --resume id --allow 'write:/a;b' \"Try again.\""


def test_the_next_step_repeats_the_options_of_the_run() -> None:
    told = denial_of(calls("a"), {"boundary"}, ["background"], "id", ["--mode", "edits"])

    assert told.fix == 'amplifier run --resume id --mode edits --allow background "Try again."'


def test_the_next_step_after_a_plan_changes_the_mode_and_keeps_the_rest() -> None:
    given = ["--budget", "0.5", "--mode", "plan", "--deny", "bash"]

    told = denial_of(calls("a"), {"mode"}, [], "id", given)

    options = "--budget 0.5 --deny bash --mode edits"
    assert told.fix == f'amplifier run --resume id {options} "Carry out the plan."'


def test_many_denied_calls_are_counted() -> None:
    assert denial_of(calls(*"abcde"), {"rule"}, [], "id").message.endswith("; and 2 more")


def test_the_first_guard_that_failed_is_named_with_its_cause() -> None:
    failures = [
        {"guard": "hooks-a", "event": "tool:pre", "error": "OSError: s3cret\nline"},
        {"guard": "hooks-b", "event": "tool:pre", "error": "OSError"},
    ]

    told = guard_failure(failures, no_secrets)

    assert told.message == (
        "The guard `hooks-a` failed, so what it guards was denied. So did hooks-b."
    )
    assert told.why == "OSError: *** line (on tool:pre)"


async def test_a_failing_guard_hides_neither_the_end_of_the_turn_nor_its_own_failure() -> None:
    hooks = HookRegistry()
    report = TurnReport()
    report.listen(hooks, lambda _: None)

    async def fail(event: str, data: Any) -> None:
        raise OSError("broken")

    for event in ("hook:failed", "orchestrator:complete", "tool:denied"):
        hooks.register(event, fail, -1_000_000, "hooks-x", on_error="deny")
    await hooks.emit("orchestrator:complete", {"stop_reason": "denied"})
    await hooks.emit("tool:denied", {"tool_call_id": "1", "tool_name": "t", "reason": "no"})

    assert report.stop_reason == "denied"
    assert {each["guard"] for each in report.failed_guards} == {"hooks-x"}
    (denied,) = report.denied
    assert (denied["tool"], denied["reason"]) == ("t", "no")


async def test_calls_of_sub_agents_are_heard_and_each_call_counts_once() -> None:
    hooks, child = HookRegistry(), HookRegistry()
    report = TurnReport()
    report.listen(hooks, lambda _: None)
    child.inherit_guards(hooks)
    facts = {"tool_call_id": "1", "tool_name": "t"}

    await child.emit("approval:denied", {**facts, "reason": "no"})
    await child.emit("tool:denied", {**facts, "tool_input": {"a": 1}, "reason": "hooks-x: no"})

    assert report.denied == [
        {"call_id": "1", "tool": "t", "input": {"a": 1}, "reason": "hooks-x: no"}
    ]
    assert report.deciders(None) == ({"other"}, [])


def test_a_log_is_kept_until_it_has_a_file_and_the_file_has_no_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.log"
    logger = logging.getLogger("kept")
    with keeping_log() as log:
        logger.warning("before s3cret")
        log.write_to(path, no_secrets)
        logger.error("after s3cret")
        logger.info("not kept")

    first, second = path.read_text().splitlines()
    assert first.endswith("WARNING kept before ***")
    assert second.endswith("ERROR kept after ***")
    assert path.stat().st_mode & 0o777 == 0o600
    assert capsys.readouterr().err == ""


def test_a_run_without_warnings_leaves_no_log_file(tmp_path: Path) -> None:
    with keeping_log() as log:
        log.write_to(tmp_path / "run.log", no_secrets)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--deny", "wirte_file"], "There is no tool `wirte_file` to deny."),
        (["--allow", "wirte_file"], "There is no tool `wirte_file` to allow."),
        (["--allow", "pages:https://docs.example/x"], "such as pages:docs.example.org"),
        (["--allow", "network:"], "`--allow network:` opens nothing."),
        (["--allow", "network:packges"], "It is network:packages or network:DOMAIN"),
        (["--allow", "write:.gti"], "It is write:.git, or write:PATH"),
        (["--allow", "background:1"], "It is background alone."),
        (["--allow", "netwrok:pypi.org"], "`--allow netwrok:pypi.org` opens nothing."),
        (["--allow", "outside_sandbox"], "decided call by call"),
    ],
)
def test_a_flag_that_names_nothing_stops_the_run(
    amplifier: Command, flags: list[str], said: str
) -> None:
    done = amplifier("run", *flags, "use write_file for notes.md")

    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_that_a_flag_stopped_is_not_the_last_session(amplifier: Command) -> None:
    first = json.loads(amplifier("run", "--json", "remember the number 7").stdout)
    assert amplifier("run", "--allow", "bsh", "continue").returncode == 2

    last = json.loads(amplifier("run", "--json", "--resume", "last", "what number?").stdout)

    assert last["session_id"] == first["session_id"]


def test_a_tool_is_denied_by_its_name_or_a_pattern(amplifier: Command) -> None:
    done = amplifier("run", "--deny", "write_*", "use write_file for notes.md")

    assert done.returncode == 3
    assert "deny `write_*`" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mode", [["--mode", "edits"], []], ids=["edits", "ask"])
def test_the_next_step_opens_what_was_needed(
    amplifier: Command, home: Path, project: Path, mode: list[str]
) -> None:
    commit = {
        "command": "git commit --allow-empty -m made",
        "write": [".git"],
        "reason": "commit",
    }
    call = {"tool_calls": [{"name": "bash", "arguments": commit}]}
    config = json.dumps({"script": [call, "One.", call, "Two."]})
    settings = f"providers:\n- module: provider-mock\n  config: {config}\n"
    home.mkdir(exist_ok=True)
    (home / "settings.yaml").write_text(settings, encoding="utf-8")
    git = ["git", "-C", str(project)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "config", "user.name", "a"], check=True)
    subprocess.run([*git, "config", "user.email", "a@example.org"], check=True)

    denied = amplifier("run", *mode, "Commit.")
    [step] = [each for each in denied.stderr.splitlines() if each.startswith("next")]
    again = amplifier(*shlex.split(step)[2:])

    assert denied.returncode == 3
    assert again.returncode == 0, again.stderr
    said = subprocess.run([*git, "log", "--format=%s"], capture_output=True, text=True, check=True)
    assert said.stdout == "made\n"
