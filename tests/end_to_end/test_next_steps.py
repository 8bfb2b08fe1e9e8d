"""Every command that a message offers as the next step is typed, and does something."""

from __future__ import annotations

import base64
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attacks.machine import Machine
from end_to_end.chat_runs import ChatRun
from end_to_end.model_server import ModelServer, Said
from next_steps import all_commands

pytestmark = pytest.mark.slow

# Each next step as the source has it, and as it is typed here, with a value for each `1`. SESSION
# is the id of a session with one turn that wrote `notes.md`.
TYPED = {
    "amplifier bundle add NAME PATH-OF-THE-LOCKED-BUNDLE": "bundle add ours .",
    "amplifier bundle list": "bundle list",
    "amplifier bundle show --plan": "bundle show --plan",
    "amplifier bundle validate 1": "bundle validate default",
    "amplifier completion fish > ~/.config/fish/completions/amplifier.fish": "completion fish",
    "amplifier config list": "config list",
    "amplifier doctor": "doctor",
    "amplifier doctor --fix": "doctor --fix",
    "amplifier explain 1": "explain SESSION",
    "amplifier init": "init --provider mock --no-call",
    "amplifier init --provider 1": "init --provider mock --no-call",
    "amplifier init --provider 1 --key-stdin < FILE": (
        "init --provider openai --key-stdin --no-call"
    ),
    "amplifier module install 1": "module install tool-web",
    "amplifier module list": "module list",
    "amplifier module lock": "module lock",
    "amplifier module new 1 --dir another-folder": "module new tool-rain --dir another-folder",
    "amplifier module new tool-weather": "module new tool-weather",
    "amplifier module validate 1": "module validate tool-todo",
    "amplifier module validate 1 --type tool": "module validate tool-todo --type tool",
    "amplifier provider models": "provider models",
    "amplifier provider test": "provider test",
    'amplifier run "..."': 'run "..."',
    'amplifier run "what is in this folder?"': 'run "what is in this folder?"',
    'amplifier run --events "what is in this folder?"': 'run --events "what is in this folder?"',
    'amplifier run --resume 1 "..."': 'run --resume last "..."',
    'amplifier run --resume 1 --mode edits "Carry out the plan."': (
        'run --resume SESSION --mode edits "Carry out the plan."'
    ),
    'amplifier run --resume 1 --allow bash "Try again."': (
        'run --resume SESSION --allow bash "Try again."'
    ),
    "amplifier run --help": "run --help",
    "amplifier run -b PATH": "run -b default hi",
    "amplifier runtime migrate": "runtime migrate",
    "amplifier runtime drain": "runtime drain",
    "amplifier runtime secrets list": "runtime secrets list",
    "amplifier runtime secrets new-key": "runtime secrets new-key",
    "amplifier runtime secrets set 1": "runtime secrets set TOKEN",
    "amplifier runtime status": "runtime status",
    "amplifier runtime status 1": "runtime status SESSION",
    "amplifier session fork 1": "session fork SESSION",
    "amplifier session fork 1 --at 1": "session fork SESSION --at 1",
    "amplifier session list": "session list",
    "amplifier session list --all": "session list --all",
    "amplifier session prune --older-than 90": "session prune --older-than 90",
    "amplifier session rewind 1 --before-turn 1 --what conversation": (
        "session rewind SESSION --before-turn 1 --what conversation --yes"
    ),
    "amplifier session rewind 1 --before-turn 1 --what files": (
        "session rewind SESSION --before-turn 1 --what files --yes"
    ),
    "amplifier session rewind 1 --before-turn 1 --what files --yes": (
        "session rewind SESSION --before-turn 1 --what files --yes"
    ),
    "amplifier session scrub 1 --yes": "session scrub SESSION --yes",
    "amplifier session show": "session show",
    "amplifier session show 1": "session show SESSION",
    "amplifier session show 1 --json": "session show SESSION --json",
    "amplifier session to-test -o tests/test_x.py": "session to-test -o tests/test_x.py",
    "amplifier session delete 1": "session delete SESSION --yes",
    "amplifier session delete 1 --yes": "session delete last --yes",
    "amplifier tool list": "tool list",
    "amplifier tool show 1": "tool show read_file",
    "amplifier trust": "trust grant --yes",
    "amplifier trust --file 1": "trust grant --file notes.md --yes",
    "amplifier trust --origin https://example.org:8443": (
        "trust grant --origin https://example.org:8443 --yes"
    ),
    "amplifier trust grant": "trust grant --yes",
    "amplifier trust show": "trust show",
    "amplifier worker --help": "worker --help",
}
ELSEWHERE = {
    "amplifier continue 1",  # typed in a terminal, below
    "amplifier worker",  # runs until it is stopped, below
    "amplifier session prune",  # its options are appended; packages/cli/tests/sessions has it
    "amplifier run",  # the name of a hook
}


GROUPS = sorted({typed.split()[0] for typed in TYPED.values()})
ADDRESS = "https://example.org:8443"


@pytest.fixture
def machine(tmp_path: Path, compiled: Path) -> Machine:
    """A project with one session, and with settings of its own that name an address."""
    made = Machine(tmp_path, compiled)
    made.environment["AMPLIFIER_SECRETS_KEY"] = base64.urlsafe_b64encode(bytes(32)).decode()
    made.user_settings({"providers": [{"module": "provider-mock"}]})
    provider = {"module": "provider-openai", "config": {"base_url": ADDRESS}}
    made.project_settings({"providers": [provider]})
    done = made.amplifier("run", "--allow", "write_file", "use write_file for notes.md")
    assert done.returncode == 0, done.stderr
    return made


def test_no_next_step_is_left_out() -> None:
    assert set(all_commands()) == TYPED.keys() | ELSEWHERE


@pytest.mark.parametrize("group", GROUPS)
def test_the_next_step_is_typed_and_works(machine: Machine, group: str) -> None:
    listed = json.loads(machine.amplifier("session", "list", "--json").stdout)
    session = listed[0]["session_id"]
    failed: list[str] = []
    for typed in TYPED.values():
        words = shlex.split(typed.replace("SESSION", session))
        if words[0] == group:
            done = machine.amplifier(*words, stdin="sk-test-1234567890\n")
            if done.returncode != 0:
                failed.append(f"{typed}: {done.returncode} {done.stderr}")

    assert not failed, "\n".join(failed)


def test_a_session_is_continued_in_a_terminal(tmp_path: Path) -> None:
    with ModelServer([Said(["Good morning."])]) as server:
        run = ChatRun(tmp_path, server)
        with run.chat("good", "morning") as screen:
            screen.wait_for("Good morning.", "ready")
            screen.type("/quit")
            screen.press("Enter")
            screen.wait_for_end()
        with run.command("continue") as screen:
            screen.wait_for("Good morning.", "ready")


def test_a_worker_starts_and_ends(machine: Machine) -> None:
    """The next step where turns wait and no worker is there."""
    assert machine.amplifier("runtime", "migrate").returncode == 0
    worker = subprocess.Popen(
        [sys.executable, "-m", "amplifier_cli", "worker"],
        cwd=machine.project,
        env=machine.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert worker.stdout is not None
    try:
        first = worker.stdout.readline()
        assert "runs up to" in first
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(120) == 0
    finally:
        worker.kill()
        worker.stdout.close()
